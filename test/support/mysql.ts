import { mysql } from '../../scripts/services/mysql.ts';
import { databaseSupport } from './database.ts';

/** MySQL for suites: the shared one (`requiring('mysql', …)`), and ones of their own (`requiring('own-mysql', …)`). */
export const { start: startMysql, startOwn: startOwnMysql } = databaseSupport(mysql);
