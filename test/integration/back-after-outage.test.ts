import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { defaultBreaker } from '../../src/publish/main/cluster-state.ts';
import { kafkaClients } from '../adapters/kafka/kafka-clients.ts';
import { kafkaOptions } from '../adapters/kafka/kafka-options.ts';
import { startProber } from '../faults/comeback/prober.ts';
import { event, queueOver } from '../publish/fake-cluster.ts';
import { type OwnKafka, startOwnKafka } from '../support/kafka.ts';
import { requiring } from '../support/requires.ts';
import { until as untilSo } from '../support/until.ts';

const topic = 'orders';
const awayMs = 4_000;
/** A probe a second; the rest is for a busy machine. */
const backWithinMs = 5_000;

requiring('own-kafka', 'the main topic after its broker was away', function () {
  this.timeout(120_000);
  let kafka: OwnKafka;

  before(async () => {
    kafka = await startOwnKafka();
    await kafka.createTopic(topic, { partitions: 6 });
  });

  it('takes an event soon after the broker leads its partitions again, with each client', async () => {
    let backAtMs = Number.POSITIVE_INFINITY;
    const all = kafkaClients.map(({ name, create }) => {
      const broker = create(kafkaOptions(kafka.brokers, { connectionTimeoutMs: 3_000 }));
      const made = queueOver(broker, { breaker: { ...defaultBreaker, random: Math.random }, topic });
      const publishedAt: number[] = [];
      let published = 0;
      const load = setInterval(() => {
        const id = String(published++);
        void made.queue.publish(event(id, { key: `k${id}` })).then((outcome) => {
          if (outcome === 'published') publishedAt.push(Date.now());
        });
      }, 20);
      const firstSince = (atMs: number): number | undefined => publishedAt.find((each) => each >= atMs);
      return { name, broker, load, firstSince, ...made };
    });
    const said = (): string => all.flatMap(({ lines }) => lines).join('\n');
    const until = (isSo: () => boolean, what: string): Promise<void> =>
      untilSo(isSo, { limitMs: 40_000, say: () => `${what}\n${said()}` });
    let stopProber = (): void => {};
    try {
      await until(() => all.every(({ firstSince }) => firstSince(0) !== undefined), 'the first events');
      await kafka.kill();
      await sleep(awayMs);
      const { firsts, stop } = startProber(kafka.brokers, topic, { partitions: 6, minInSync: 1 });
      stopProber = stop;
      const restarted = kafka.restart();
      await until(() => firsts.has('leaders'), 'the broker');
      backAtMs = firsts.get('leaders')?.at ?? backAtMs;
      // What is acknowledged earlier than the look of the prober counts as well.
      const sinceMs = backAtMs - 1_000;
      await until(() => all.every(({ firstSince }) => firstSince(sinceMs) !== undefined), 'events');
      await restarted;
      for (const { name, firstSince, clusterState } of all) {
        const tookMs = (firstSince(sinceMs) ?? Number.POSITIVE_INFINITY) - backAtMs;
        assert.ok(tookMs < backWithinMs, `${name}: ${tookMs} ms`);
        await until(() => clusterState.state === 'CLOSED', 'its end');
      }
    } finally {
      stopProber();
      for (const { load, queue, broker } of all) {
        clearInterval(load);
        await queue.close(2_000);
        await broker.close(500);
      }
    }
  });
});
