import assert from 'node:assert/strict';
import mysql from 'mysql2/promise';
import { createMysqlStore } from '../../src/adapters/mysql/mysql-store.ts';
import { rowStatements } from '../../src/outbox/insert-row.ts';
import type { OwnDatabase } from '../support/database.ts';
import { rowOf } from './outbox-store.ts';
import type { ServerUnderTest } from './server-store.ts';

/** MySQL and MariaDB alike. */
export function mysqlUnderTest(server: OwnDatabase, isMysql: boolean): ServerUnderTest {
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
    namesTableLocks: isMysql,
    setReadOnly: (_url, isReadOnly) => `SET GLOBAL transaction_read_only = ${isReadOnly ? 1 : 0}`,
    connectionsOfSvc:
      'SELECT COUNT(*) AS found FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()',
    makeSchema: (name) => `CREATE DATABASE ${name}`,
    store: { file: 'mysql/mysql-store.ts', name: 'createMysqlStore' },
  };
}

/** Call it inside a `describe`. */
export function testCharacterSets(get: () => ServerUnderTest): void {
  it('an application has its texts stored as they are, whatever character set its connection has', async () => {
    const { server } = get();
    const url = await server.freshDatabase();
    const store = createMysqlStore({ url, table: 'texts', initializeSchema: 'always' });
    await store.prepare();
    const { insert } = rowStatements('texts', 'mysql');
    const row = rowOf({ aggregateId: "ä漢😀\\'", key: 'é', headers: { name: '漢"' } });
    const charsets = ['LATIN1_SWEDISH_CI', 'UTF8_GENERAL_CI', 'CP1250_GENERAL_CI', 'UTF8MB4_BIN'];
    for (const charset of charsets) {
      const connection = await mysql.createConnection({ uri: url.replace(/^mariadb:/, 'mysql:'), charset });
      const { text, values } = insert(row);
      await connection.execute(text, [...values]);
      await connection.end();
    }
    const found = await store.read({ aggregateId: row.aggregateId }, 0, 10);
    for (const { aggregateId, key, headers, payload } of found)
      assert.deepEqual(
        { aggregateId, key, headers, payload },
        { aggregateId: row.aggregateId, key: row.key, headers: row.headers, payload: row.payload },
      );
    assert.equal(found.length, charsets.length);
    await store.close(500);
  });
}
