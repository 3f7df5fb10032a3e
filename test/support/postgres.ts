import { postgres } from '../../scripts/services/postgres.ts';
import { databaseSupport } from './database.ts';

/** PostgreSQL for suites: the shared one (`requiring('postgres', …)`), and ones of their own (`requiring('own-postgres', …)`). */
export const { start: startPostgres, startOwn: startOwnPostgres } = databaseSupport(postgres);
