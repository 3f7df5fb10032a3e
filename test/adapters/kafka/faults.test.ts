import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Broker, SendResult } from '../../../src/publish/broker.ts';
import { failureOf } from '../../contract/broker.ts';
import { type OwnKafka, startOwnKafka } from '../../support/kafka.ts';
import { startLostNetwork } from '../../support/lost-network.ts';
import { requiring } from '../../support/requires.ts';
import { kafkaClients } from './kafka-clients.ts';
import { kafkaOptions, textRecord } from './kafka-options.ts';

for (const { name, create } of kafkaClients) {
  requiring('own-kafka', `${name} when the broker fails`, function () {
    this.timeout(60_000);
    let kafka: OwnKafka;
    let broker: Broker;

    before(async () => {
      kafka = await startOwnKafka();
    });
    after(() => kafka?.stop());
    beforeEach(() => {
      broker = create(kafkaOptions(kafka.brokers));
    });
    afterEach(() => broker.close(0));

    it('finds the one broker that lives among those of the list', async () => {
      await kafka.createTopic('seeds');
      const patient = create(kafkaOptions(['127.0.0.1:1', '127.0.0.1:2', ...kafka.brokers]));
      assert.deepEqual(await patient.connect(), { ok: true });
      assert.deepEqual(await patient.send('seeds', 0, [textRecord('x')]), { ok: true });
      assert.equal((await patient.describe()).nodeCount, 1);
      await patient.close(1000);
    });

    it('reports a partition that does not exist, and stores nothing', async () => {
      await kafka.createTopic('small', { partitions: 2 });
      for (const partition of [2, -1]) {
        const failure = failureOf(await broker.send('small', partition, [textRecord('x')]));
        assert.deepEqual([failure.kind, failure.cause], ['retriable', 'UNKNOWN_PARTITION']);
        assert.match(failure.message, new RegExp(`topic "small" has no partition ${partition}`));
      }
      assert.equal(await kafka.count('small'), 0);
    });

    it('never calls a record unstored that a dying broker has stored, and goes on after its restart', async () => {
      await kafka.createTopic('crash');
      const results: { text: string; result: SendResult }[] = [];
      let stop = false;
      const sender = async (name: string): Promise<void> => {
        for (let index = 0; !stop; index++) {
          const text = `${name}-${index}`;
          results.push({ text, result: await broker.send('crash', 0, [textRecord(text)]) });
          if (results.at(-1)?.result.ok === false) await sleep(20);
        }
      };
      const senders = Array.from({ length: 8 }, (_, index) => sender(`s${index}`));
      while (results.length <= 150) await sleep(20);
      await kafka.kill();
      await sleep(300);
      await assert.rejects(broker.describe(), /cannot reach Kafka at/);
      stop = true;
      await Promise.all(senders);
      await kafka.restart();
      assert.deepEqual(await broker.send('crash', 0, [textRecord('after')]), { ok: true });
      assert.equal((await broker.describe()).nodeCount, 1);

      const read = (await kafka.read('crash')).map(({ value }) => JSON.parse(String(value)) as string);
      const stored = new Set(read);
      assert.equal(stored.size, read.length, 'nothing is stored twice');
      const of = (wanted: (result: SendResult) => boolean) =>
        results.flatMap(({ text, result }) => (wanted(result) ? [text] : []));
      const acknowledged = of((result) => result.ok);
      assert.ok(acknowledged.length > 100, `only ${acknowledged.length} sends were acknowledged`);
      assert.deepEqual(
        acknowledged.filter((text) => !stored.has(text)),
        [],
        'acknowledged, and not stored',
      );
      const unstored = of((result) => !result.ok && result.failure.kind !== 'unknown_outcome');
      assert.ok(unstored.length > 8, `only ${unstored.length} sends failed`);
      assert.deepEqual(
        unstored.filter((text) => stored.has(text)),
        [],
        'stored, although the failure says it was not',
      );
      assert.ok(
        of((result) => !result.ok && result.failure.kind === 'unknown_outcome').length > 0,
        'no send was under way',
      );
    });

    it('says TimeoutException when the broker hangs, and begins anew when it answers again', async () => {
      await kafka.createTopic('hang');
      assert.deepEqual(await broker.send('hang', 0, [textRecord('before')]), { ok: true });
      await kafka.pause();
      try {
        const start = performance.now();
        const failure = failureOf(await broker.send('hang', 0, [textRecord('during')]));
        const tookMs = performance.now() - start;
        assert.deepEqual([failure.kind, failure.cause], ['unknown_outcome', 'TimeoutException']);
        assert.match(failure.message, /no answer from Kafka .* within 2000 ms/);
        assert.ok(tookMs > 1900 && tookMs < 3500, `${tookMs} ms`);
        await assert.rejects(broker.describe(), /no answer from Kafka/);
      } finally {
        await kafka.resume();
      }
      // Kafka counts a node that hung for long as away until it has heard of it again: for a moment, and not at once.
      const isBack = async (): Promise<boolean> =>
        (await broker.describe()).nodeCount === 1 && (await broker.send('hang', 0, [textRecord('after')])).ok;
      while (!(await isBack().catch(() => false))) await sleep(50);
      assert.ok((await kafka.count('hang')) >= 2);
    });

    it('waits for a leader that hangs while no broker tells of another one', async () => {
      await kafka.createTopic('patience');
      const slow = create(kafkaOptions(kafka.brokers, { requestTimeoutMs: 30_000 }));
      assert.deepEqual(await slow.send('patience', 0, [textRecord('before')]), { ok: true });
      await kafka.pause();
      const during = slow.send('patience', 0, [textRecord('during')]);
      await sleep(5_000);
      await kafka.resume();
      assert.deepEqual(await during, { ok: true });
      assert.equal(await kafka.count('patience'), 2);
      await slow.close(1_000);
    });

    it('has the answer to a question soon after the network is back in which it was lost without a word', async () => {
      const network = await startLostNetwork(kafka.brokers.map((to) => ({ to })));
      const far = create(kafkaOptions(network.addresses, { requestTimeoutMs: 30_000 }));
      try {
        network.turn(true);
        const question = far.describe();
        const topic = far.partitionsFor('none');
        await sleep(900);
        network.turn(false);
        const backAtMs = performance.now();
        assert.equal((await question).nodeCount, 1);
        await topic;
        const tookMs = performance.now() - backAtMs;
        assert.ok(tookMs < 2_000, `${tookMs} ms`);
      } finally {
        await far.close(0);
        network.close();
      }
    });

    it('closes at its deadline although the broker hangs, and says so to the sends under way', async () => {
      await kafka.createTopic('leave');
      const slow = create(kafkaOptions(kafka.brokers, { requestTimeoutMs: 30_000 }));
      assert.deepEqual(await slow.send('leave', 0, [textRecord('before')]), { ok: true });
      await kafka.pause();
      try {
        const sent = slow.send('leave', 0, [textRecord('during')]);
        await sleep(50);
        const start = performance.now();
        await slow.close(300);
        const tookMs = performance.now() - start;
        assert.ok(tookMs > 250 && tookMs < 2000, `${tookMs} ms`);
        assert.equal(failureOf(await sent).kind, 'unknown_outcome');
      } finally {
        await kafka.resume();
      }
    });
  });

  describe(`${name} without a broker`, () => {
    it('names the brokers that it cannot reach, each time and soon', async () => {
      const broker = create(kafkaOptions(['127.0.0.1:1', '127.0.0.1:2']));
      const expected =
        /^cannot reach Kafka at 127\.0\.0\.1:1, 127\.0\.0\.1:2 \(ECONNREFUSED\): check that Kafka runs there/;
      for (const use of [broker.connect, () => broker.send('t', 0, [textRecord('x')]), broker.connect]) {
        const failure = failureOf(await use());
        assert.deepEqual([failure.kind, failure.cause], ['retriable', 'ECONNREFUSED']);
        assert.match(failure.message, expected);
      }
      await assert.rejects(broker.describe(), { code: 'SVC_ADAPTERS_NOT_REACHABLE', message: expected });
      assert.equal(await broker.partitionsFor('t'), undefined);
      await broker.close(1000);
    });

    it('names a certificate file that it cannot read', async () => {
      const broker = create(kafkaOptions(['127.0.0.1:1'], { tls: { caFile: '/nowhere/ca.pem' } }));
      const failure = failureOf(await broker.connect());
      assert.equal(failure.kind, 'fatal');
      assert.match(
        failure.message,
        /cannot read "\/nowhere\/ca\.pem" \(ENOENT\): check svc\.broker\.tls\.ca-file/,
      );
      await broker.close(1000);
    });
  });
}
