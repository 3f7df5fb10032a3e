import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { InstrumentationBase } from '@opentelemetry/instrumentation';
import { createPostgresStore } from '../../../src/adapters/postgres/postgres-store.ts';
import { startPostgres } from '../../support/postgres.ts';
import { requiring } from '../../support/requires.ts';

type Method = (this: object, ...args: unknown[]) => unknown;

/** As that of `pg` does it. */
class Watching extends InstrumentationBase {
  calls = 0;
  constructor() {
    super('watching', '1.0.0', { enabled: false });
  }
  protected init(): [] {
    return [];
  }
  wrap(prototype: Record<string, Method>): void {
    const count = (): void => void this.calls++;
    for (const name of ['connect', 'query'])
      this._wrap(prototype, name, (original) => {
        return function (this: object, ...args: unknown[]) {
          count();
          return Reflect.apply(original, this, args);
        };
      });
  }
  unwrap(prototype: Record<string, Method>): void {
    for (const name of ['connect', 'query']) this._unwrap(prototype, name);
  }
}

requiring('postgres', 'the connections of svc to PostgreSQL', function () {
  this.timeout(30_000);

  it('are in no span of an instrumentation of the driver, whose SDK may have started in between', async () => {
    // The application was first: svc has the very same classes.
    const { Client } = createRequire(import.meta.url)('pg') as { Client: new (options: object) => unknown };
    const prototype = Client.prototype as Record<string, Method>;
    const watching = new Watching();
    const url = await (await startPostgres()).freshDatabase();
    watching.wrap(prototype);
    try {
      const store = createPostgresStore({ url, table: 'svc_outbox_events', initializeSchema: 'always' });
      await store.prepare();
      assert.equal(await store.countPending(), 0);
      await store.close(5_000);
      assert.equal(watching.calls, 0);
      const application = Reflect.construct(Client, [{ connectionString: url }]) as Record<string, Method>;
      await application.connect?.();
      await application.query?.('SELECT 1');
      await application.end?.();
      assert.equal(watching.calls, 2);
    } finally {
      watching.unwrap(prototype);
    }
  });
});
