import { createMysqlStore } from '../../src/adapters/mysql/mysql-store.ts';
import { startMysql, startOwnMysql } from '../support/mysql.ts';
import { requiring } from '../support/requires.ts';
import { mysqlUnderTest, testCharacterSets } from './mysql-under-test.ts';
import { testOutboxMigrations } from './outbox-migrations.ts';
import { testOutboxSchema } from './outbox-schema.ts';
import { type OutboxStoreUnderTest, testOutboxStore } from './outbox-store.ts';
import { testOutboxStrays } from './outbox-strays.ts';
import { type ServerUnderTest, testServerStore } from './server-store.ts';

requiring('mysql', 'outbox store contract: mysql', function () {
  this.timeout(30_000);
  let under: OutboxStoreUnderTest;

  before(async () => {
    const server = await startMysql();
    const url = await server.freshDatabase();
    under = {
      dialect: 'mysql',
      url,
      open: createMysqlStore,
      query: (statement) => server.query(url, statement),
    };
  });

  testOutboxStore(() => under);
  describe('schema', () => testOutboxSchema(() => under));
  describe('rows of somebody else', () => testOutboxStrays(() => under));
  describe('migrations', () => testOutboxMigrations(() => under));
});

requiring('own-mysql', 'outbox store on a server that can be hurt: mysql', function () {
  this.timeout(60_000);
  let under: ServerUnderTest;

  before(async () => {
    under = mysqlUnderTest(await startOwnMysql(), true);
  });

  testServerStore(() => under);
  testCharacterSets(() => under);
});
