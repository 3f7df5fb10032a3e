import { createMysqlStore } from '../../src/adapters/mysql/mysql-store.ts';
import { startMariadb, startOwnMariadb } from '../support/mariadb.ts';
import { startMysql, startOwnMysql } from '../support/mysql.ts';
import { requiring } from '../support/requires.ts';
import { mysqlUnderTest, testCharacterSets } from './mysql-under-test.ts';
import { testOutboxMigrations } from './outbox-migrations.ts';
import { testOutboxSchema } from './outbox-schema.ts';
import { type OutboxStoreUnderTest, testOutboxStore } from './outbox-store.ts';
import { testOutboxStrays } from './outbox-strays.ts';
import { type ServerUnderTest, testServerStore } from './server-store.ts';

const servers = [
  { name: 'mysql', start: startMysql, startOwn: startOwnMysql },
  { name: 'mariadb', start: startMariadb, startOwn: startOwnMariadb },
] as const;

for (const { name, start, startOwn } of servers) {
  requiring(name, `outbox store contract: ${name}`, function () {
    this.timeout(30_000);
    let under: OutboxStoreUnderTest;

    before(async () => {
      const server = await start();
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

  requiring(`own-${name}`, `outbox store on a server that can be hurt: ${name}`, function () {
    this.timeout(60_000);
    let under: ServerUnderTest;

    before(async () => {
      under = mysqlUnderTest(await startOwn(), name === 'mysql');
    });

    testServerStore(() => under);
    testCharacterSets(() => under);
  });
}
