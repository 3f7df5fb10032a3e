import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { publishEvent } from '../../src/capture/declare/publish-event.ts';
import { type StartedSvc, startSvc } from './started-svc.ts';

describe('an instance of which each event is refused', function () {
  this.timeout(60_000);
  let svc: StartedSvc;
  afterEach(() => svc.end());

  it('is not ready after ten seconds, alive all the time, and ready again with an event that is none', async () => {
    svc = startSvc({ client: 'memory' });
    svc.service.resume();
    const call = publishEvent({ eventType: 'Ordered', key: '#args[0].order.id' }, async (_: unknown) => 1);
    const get = async (path: string): Promise<number> => {
      const port = svc.info.join('\n').match(/management on http:\/\/127\.0\.0\.1:(\d+)/)?.[1];
      return (await fetch(`http://127.0.0.1:${port}/actuator/health/${path}`)).status;
    };
    const until = async (path: string, status: number): Promise<void> => {
      for (
        const endMs = performance.now() + 20_000;
        (await get(path).catch(() => 0)) !== status;
        await sleep(250)
      ) {
        assert.ok(performance.now() < endMs, `${path} did not become ${status}`);
        if (status === 503) await call({});
      }
    };
    await until('readiness', 200);
    const startMs = performance.now();
    await until('readiness', 503);
    assert.ok(performance.now() - startMs >= 10_000);
    assert.deepEqual([await get('svc'), await get('liveness')], [503, 200]);
    await call({ order: { id: 'a' } });
    await until('readiness', 200);
    assert.equal(await get('svc'), 200);
  });
});
