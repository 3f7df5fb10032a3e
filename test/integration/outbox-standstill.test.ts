import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import type { HealthDetails } from '../../src/manage/controls.ts';
import { openOutboxStore } from '../../src/start/adapters.ts';
import { rowOf } from '../outbox/relay/relay-under-test.ts';
import { startPostgres } from '../support/postgres.ts';
import { requiring } from '../support/requires.ts';
import { startSvc } from './started-svc.ts';

const table = 'svc_outbox_events';

interface Shown {
  readonly status: string;
  readonly details?: HealthDetails;
}

requiring('postgres', 'svc whose shards another session keeps locked', function () {
  this.timeout(120_000);

  it('is DOWN after two leases while a row waits, says why, and is UP once it is sent', async () => {
    const url = await (await startPostgres()).freshDatabase();
    const store = openOutboxStore({ url, table, initializeSchema: 'always' });
    await store.prepare();
    const locker = new pg.Client(url);
    await locker.connect();
    await locker.query('BEGIN');
    await locker.query(`SELECT 1 FROM ${table}_shard FOR UPDATE`);
    const startedAtMs = performance.now();
    const svc = startSvc({ client: 'file' }, { outbox: { datasource: { url }, sendTimeoutSeconds: 1 } });
    const get = async (path: string) => {
      const port = svc.info.join('\n').match(/management on http:\/\/127\.0\.0\.1:(\d+)/)?.[1];
      const answer = await fetch(`http://127.0.0.1:${port}/actuator/health/${path}`);
      return { code: answer.status, ...((await answer.json()) as Shown) };
    };
    const until = async (status: string) => {
      for (const endMs = performance.now() + 50_000; performance.now() < endMs; await sleep(250)) {
        const health = await get('svc').catch(() => undefined);
        if (health?.status === status) return health;
      }
      return assert.fail(`health did not become ${status}\n${svc.lines.join('\n')}`);
    };
    try {
      svc.service.resume();
      await until('UP');
      assert.equal((await get('readiness')).code, 200);
      await store.insert([rowOf('a', 1)]);
      const { code, details } = await until('DOWN');
      assert.ok(performance.now() - startedAtMs >= 20_000);
      assert.deepEqual([code, details?.outbox?.status, details?.outbox?.totalPending], [503, 'DOWN', 1]);
      assert.match(
        details?.outbox?.error ?? '',
        /^rows wait, but the relay of this process has neither claimed shards nor sent rows since \d{4}-\S+Z: the shards cannot be claimed: \S/,
      );
      assert.equal(details?.error, details?.outbox?.error);
      assert.deepEqual([(await get('liveness')).code, (await get('readiness')).code], [200, 503]);
      await locker.query('ROLLBACK');
      await until('UP');
      assert.equal((await get('readiness')).code, 200);
    } finally {
      await locker.end();
      await svc.end();
      await store.close(1_000);
    }
  });
});
