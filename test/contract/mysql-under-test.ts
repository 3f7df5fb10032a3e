import mysql from 'mysql2/promise';
import { createMysqlStore } from '../../src/adapters/mysql/mysql-store.ts';
import { mysqlLock } from '../../src/adapters/sql/dialect.ts';
import type { OwnDatabase } from '../support/database.ts';
import type { ServerUnderTest } from './server-store.ts';

/** MySQL and MariaDB alike. */
export function mysqlUnderTest(server: OwnDatabase): ServerUnderTest {
  return {
    dialect: 'mysql',
    server,
    open: createMysqlStore,
    async connect(url) {
      const connection = await mysql.createConnection(url.replace(/^mariadb:/, 'mysql:'));
      connection.on('error', () => {});
      return {
        // Prepared where it has parameters: numbers go another way then than as text.
        query: (statement, values) =>
          values === undefined ? connection.query(statement) : connection.execute(statement, [...values]),
        close: () => connection.end(),
      };
    },
    makeUser: (name, password) => [`CREATE USER ${name} IDENTIFIED BY '${password}'`],
    lockTable: (table) => `SELECT * FROM ${table} FOR UPDATE`,
    takeLock: (name) => `SELECT GET_LOCK(${mysqlLock.replace('?', `'${name}'`)}, 0)`,
    setReadOnly: (_url, isReadOnly) => `SET GLOBAL transaction_read_only = ${isReadOnly ? 1 : 0}`,
    connectionsOfSvc:
      'SELECT COUNT(*) AS found FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()',
    makeSchema: (name) => `CREATE DATABASE ${name}`,
    store: { file: 'mysql/mysql-store.ts', name: 'createMysqlStore' },
  };
}
