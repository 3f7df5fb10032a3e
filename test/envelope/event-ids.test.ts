import assert from 'node:assert/strict';
import { createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Config } from '../../src/config/config.ts';
import { createEventIds } from '../../src/envelope/ids.ts';
import { openWorkerIdLease } from '../../src/start/adapters.ts';
import { useClock } from '../support/fake-time.ts';
import { temporaryFolder } from '../support/folders.ts';

type EventIds = ReturnType<typeof createEventIds>;

describe('the event ids of a process', function () {
  this.timeout(10_000);
  let folder: string;
  let port: number;
  const sockets: Socket[] = [];
  const server = createServer((socket) => void sockets.push(socket));

  before((done) => {
    folder = temporaryFolder('ids');
    server.listen(0, '127.0.0.1', () => {
      port = (server.address() as { port: number }).port;
      done();
    });
  });
  after(() => {
    server.close();
  });
  beforeEach(() => {
    sockets.length = 0;
  });
  afterEach(() => {
    for (const socket of sockets) socket.destroy();
  });

  function startWith(idGenerator: object, client = 'kafkajs'): EventIds {
    const broker = {
      ...{ client, bootstrapServers: [`127.0.0.1:${port}`], clientId: 'ids', topic: 'events' },
      ...{ requestTimeoutMs: 5_000, connectionTimeoutMs: 3_000, acks: 'all', compression: 'none' },
      ...{ tls: { enabled: false }, sasl: {}, file: { path: folder } },
    };
    const ids = { type: 'snowflake', leasePath: folder, lease: 'auto', group: 'svc-workers', ...idGenerator };
    const config = { broker, idGenerator: ids } as unknown as Config;
    return createEventIds(config, () => openWorkerIdLease(config));
  }

  const sourceOf = (ids: EventIds): string | undefined => ids.worker()?.source;

  it('asks Kafka where events go to Kafka, a second after it may, and has the worker id of the host until then', async () => {
    const ids = startWith({});
    assert.equal(sourceOf(ids), 'host');
    ids.lease();
    await sleep(700);
    assert.equal(sockets.length, 0);
    for (const end = performance.now() + 5_000; sockets.length === 0 && performance.now() < end; )
      await sleep(50);
    assert.ok(sockets.length > 0);
    const beganMs = performance.now();
    await ids.close(5_000);
    assert.ok(performance.now() - beganMs < 1_000);
  });

  it('asks nobody where it has a worker id, needs none, or was told not to; nor after its end', async () => {
    const all = [
      [startWith({ workerId: 7 }), 'configured'],
      [startWith({ lease: 'host' }), 'host'],
      [startWith({}, 'file'), 'host'],
      [startWith({ type: 'uuidv7' }), undefined],
    ] as const;
    for (const [ids, source] of all) {
      assert.equal(sourceOf(ids), source);
      ids.lease();
    }
    const ended = startWith({});
    await ended.close(100);
    ended.lease();
    await sleep(1_500);
    assert.equal(sockets.length, 0);
    for (const [ids] of all) await ids.close(100);
  });

  it('says why there are none while the clock is more than ten seconds behind the time it has shown', async () => {
    let now = Date.UTC(2026, 10, 22);
    useClock({ now: () => now });
    const ids = startWith({ workerId: 7 });
    assert.equal(ids.problem(), undefined);
    now -= 10_000;
    assert.equal(ids.problem(), undefined);
    now -= 1;
    assert.equal(
      ids.problem(),
      'Events are refused: the clock moved backwards by 10001 ms, more than the 10000 ms that event ids tolerate',
    );
    now += 1;
    assert.equal(ids.problem(), undefined);
    await ids.close(100);
  });
});
