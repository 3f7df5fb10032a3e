import { createMysqlStore } from '../../src/adapters/mysql/mysql-store.ts';
import { startMysql } from '../support/mysql.ts';
import { requiring } from '../support/requires.ts';
import { testOutboxSchema } from './outbox-schema.ts';
import { type OutboxStoreUnderTest, testOutboxStore } from './outbox-store.ts';

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
});
