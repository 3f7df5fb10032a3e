import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { resolve } from 'node:path';
import type { OutboxStore } from '../../src/outbox/outbox-store.ts';
import { openOutboxStore } from '../../src/start/adapters.ts';
import { outboxRow } from '../cli/outbox-folder.ts';
import { hostEnvironment } from '../e2e/support/run-app.ts';
import { temporaryFolder } from '../support/folders.ts';
import { startOwnPostgres } from '../support/postgres.ts';
import { requiring } from '../support/requires.ts';
import { until as untilSo } from '../support/until.ts';

const main = resolve(import.meta.dirname, '../../src/cli/main.ts');

requiring('own-postgres', 'svc relay while PostgreSQL is killed', function () {
  this.timeout(120_000);

  it('goes on when it is back, loses nothing, and stops in order', async () => {
    const server = await startOwnPostgres();
    const url = await server.freshDatabase();
    const folder = temporaryFolder('relay');
    const table = 'svc_outbox_events';
    const open = (): OutboxStore => openOutboxStore({ url, table, initializeSchema: 'always' });
    const store = open();
    await store.prepare();
    await store.insert([outboxRow({ eventId: '1' })]);
    const child = spawn(process.execPath, [main, 'relay'], {
      cwd: folder,
      env: {
        ...{ ...hostEnvironment(), MANAGEMENT_SERVER_PORT: '0', SVC_BROKER_CLIENT: 'file' },
        ...{ SVC_OUTBOX_ENABLED: 'true', SVC_OUTBOX_DATASOURCE_URL: url },
      },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const ended = once(child, 'close');
    let stderr = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text;
    });
    const until = (isSo: () => Promise<boolean> | boolean): Promise<void> =>
      untilSo(isSo, { limitMs: 40_000, everyMs: 50, say: () => stderr });
    const published = async (): Promise<number> => (await store.statistics()).published;
    try {
      await until(async () => (await published()) === 1);
      await server.kill();
      await until(() => /svc: warn: outbox: /.test(stderr));
      await server.restart();
      await store.insert([outboxRow({ eventId: '2' })]);
      await until(async () => (await published()) === 2);
      child.kill('SIGTERM');
      assert.deepEqual(await ended, [0, null], stderr);
      assert.ok(!stderr.includes(new URL(url).password || 'no password'));
      assert.equal((await store.claim('next', 10_000)).length, 64);
    } finally {
      child.kill('SIGKILL');
      await store.close(1_000);
      await server.stop();
    }
  });
});
