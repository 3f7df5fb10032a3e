import { createPostgresStore } from '../../src/adapters/postgres/postgres-store.ts';
import { startPostgres } from '../support/postgres.ts';
import { requiring } from '../support/requires.ts';
import { testOutboxSchema } from './outbox-schema.ts';
import { type OutboxStoreUnderTest, testOutboxStore } from './outbox-store.ts';

requiring('postgres', 'outbox store contract: postgres', function () {
  this.timeout(20_000);
  let under: OutboxStoreUnderTest;

  before(async () => {
    const server = await startPostgres();
    const url = await server.freshDatabase();
    under = {
      dialect: 'postgres',
      url,
      open: createPostgresStore,
      query: (statement) => server.query(url, statement),
    };
  });

  testOutboxStore(() => under);
  describe('schema', () => testOutboxSchema(() => under));
});
