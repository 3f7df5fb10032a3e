import assert from 'node:assert/strict';
import { type OwnKafka, startOwnKafka } from '../support/kafka.ts';
import { requiring } from '../support/requires.ts';
import { type StartedSvc, startSvc } from './started-svc.ts';

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const keys = 12;

requiring('own-kafka', 'the order of keys over an outage of a real Kafka', function () {
  this.timeout(180_000);
  let kafka: OwnKafka;
  before(async () => {
    kafka = await startOwnKafka();
  });
  after(() => kafka.stop());

  /** Events, 400 a second, until `isOver`. Returns how many there were. */
  async function load(svc: StartedSvc, isOver: () => boolean): Promise<number> {
    let count = 0;
    for (const startMs = performance.now(); !isOver(); await sleep(4)) {
      const due = ((performance.now() - startMs) / 1_000) * 400;
      while (count < due) {
        const n = count++;
        void svc.service.producer.publish({ n }, { eventType: 'T', key: `k${n % keys}`, headers: { n } });
      }
    }
    return count;
  }

  async function startClient(client: string) {
    const topic = `orders-${client}`;
    await kafka.createTopic(topic, { partitions: 3 });
    const lines: string[] = [];
    const say = (message: string): void => void lines.push(message);
    const svc = startSvc(
      { client, bootstrapServers: kafka.brokers, topic, asyncMode: true },
      {
        logger: { debug() {}, info: say, warn: say, error: say },
        retry: { initialInterval: 100, maxAttempts: 2 },
      },
    );
    return { client, topic, svc, has: (text: string) => lines.some((line) => line.includes(text)) };
  }

  it('killed for 3 s and started again: every event is there, first seen in the order of its key', async () => {
    const clients = await Promise.all(['kafkajs', 'platformatic'].map(startClient));
    let isOver = false;
    const counts = Promise.all(clients.map(({ svc }) => load(svc, () => isOver)));
    await sleep(1_500);
    await kafka.kill();
    await sleep(3_000);
    assert.ok(clients.every(({ has }) => has('events go behind earlier ones of their partition')));
    await kafka.restart();
    const endMs = performance.now() + 30_000;
    while (!clients.every(({ has }) => has('events go to the topic again'))) {
      assert.ok(performance.now() < endMs, 'events still go to the backup');
      await sleep(50);
    }
    await sleep(500);
    isOver = true;
    for (const [index, { svc, topic, client }] of clients.entries()) {
      const count = (await counts)[index] as number;
      await svc.end();
      const seen = new Set<number>();
      const last = new Map<string, number>();
      for (const { key, headers } of await kafka.read(topic, { count, timeoutMs: 60_000 })) {
        const n = Number(headers.n);
        if (seen.has(n)) continue;
        seen.add(n);
        assert.ok(
          n > (last.get(String(key)) ?? -1),
          `${client}: ${n} after ${last.get(String(key))} of ${key}`,
        );
        last.set(String(key), n);
      }
      assert.equal(seen.size, count);
    }
  });
});
