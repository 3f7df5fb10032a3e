import { mariadb } from '../../scripts/services/mariadb.ts';
import { databaseSupport } from './database.ts';

/** MariaDB for suites: the shared one (`requiring('mariadb', …)`), and ones of their own (`requiring('own-mariadb', …)`). */
export const { start: startMariadb, startOwn: startOwnMariadb } = databaseSupport(mariadb);
