import assert from 'node:assert/strict';
import { join } from 'node:path';
import { running } from '../../../src/preload/preload.ts';
import { eventsIn } from '../../adapters/local-backup/backup-folder.ts';
import { type SilentServer, startSilentServer } from '../../support/silent-server.ts';
import { until } from '../../support/until.ts';
import { type InstrumentedApp, instrumentedApp } from './instrumented-app.ts';

describe('SvcInstrumentation, switched off while the broker hangs', function () {
  this.timeout(30_000);
  let app: InstrumentedApp;
  let silent: SilentServer;
  beforeEach(async () => {
    app = instrumentedApp();
    silent = await startSilentServer();
  });
  afterEach(async () => {
    await app.remove();
    silent.close();
  });

  const config = () =>
    app.config({
      broker: {
        topic: 'orders',
        bootstrapServers: silent.address,
        dlqBackupPath: backup(),
        asyncMode: true,
      },
      shutdown: { timeoutMs: 600 },
    });
  const backup = (): string => join(app.folder, 'backup');
  const kept = async (): Promise<number> => (await eventsIn(backup())).length;
  const count = (pattern: RegExp): number => app.lines.filter((line) => pattern.test(line)).length;

  it('keeps each event in the backup once the time is over, and says nothing of what it has closed itself', async () => {
    const instrumentation = app.make(config());
    const order = app.load();
    for (const id of [1, 2, 3]) await order(id);
    await silent.spokenTo;
    const startedAt = performance.now();
    instrumentation.disable();
    assert.deepEqual(await order(4), { id: 4 });
    await app.ended();
    assert.ok(performance.now() - startedAt < 4_000, `${performance.now() - startedAt} ms`);
    assert.equal(await kept(), 3);
    await until(() => silent.connections() === 0);
    assert.deepEqual(
      app.lines.filter((line) => /closed by svc|Circuit breaker/.test(line)),
      [],
    );
  });

  /** One event waits from before, and one from after. */
  async function switchedOffAndOn() {
    const instrumentation = app.make(config());
    const order = app.load();
    await order(1);
    await silent.spokenTo;
    instrumentation.disable();
    instrumentation.enable();
    await order(2);
    return instrumentation;
  }

  it('gives nothing up where enable() comes before the time is over', async () => {
    await switchedOffAndOn();
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    assert.equal(running()?.pending(), 2, app.lines.join('\n'));
    assert.equal(count(/backup/), 0, app.lines.join('\n'));
  });

  it('goes on with enable() before the end, and ends once after the second disable()', async () => {
    const instrumentation = await switchedOffAndOn();
    await new Promise((resolve) => setTimeout(resolve, 100));
    const current = running();
    instrumentation.disable();
    await until(() => current?.hasEnded === true);
    await until(() => silent.connections() === 0);
    assert.equal(await kept(), 2);
    assert.equal(count(/^info: ended after disable\(\)$/), 1);
  });
});
