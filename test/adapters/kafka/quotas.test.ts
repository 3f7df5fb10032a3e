import assert from 'node:assert/strict';
import { type FakeKafka, startFakeKafka } from '../../support/fake-kafka.ts';
import { logInto, useLogger } from '../../support/log.ts';
import { kafkaClients } from './kafka-clients.ts';
import { kafkaOptions, textRecord } from './kafka-options.ts';

for (const { name, create } of kafkaClients)
  describe(`${name} with a broker that has quotas`, () => {
    let kafka: FakeKafka;
    beforeEach(async () => {
      kafka = await startFakeKafka();
    });
    afterEach(() => kafka.close());

    it('writes nothing for as long as it says, whatever it is, and is answered from memory meanwhile', async () => {
      const lines: string[] = [];
      const logger = logInto(lines);
      useLogger(logger);
      const broker = create(kafkaOptions([kafka.address], { requestTimeoutMs: 400 }));
      await broker.describe();
      assert.equal(broker.heldBack?.(), undefined);
      kafka.throttleMs = 700;
      assert.deepEqual(await broker.send('t', 0, [textRecord('x')]), { ok: true });
      const [before, startMs] = [kafka.requests.length, performance.now()];
      kafka.throttleMs = 0;
      const sent = Promise.all([
        broker.send('t', 0, [textRecord('y')]),
        broker.send('u', 0, [textRecord('z')]),
      ]);
      assert.equal((await broker.describe()).nodeCount, 1);
      assert.equal(broker.heldBack?.('t', 0)?.forMs, 700);
      assert.deepEqual(await sent, [{ ok: true }, { ok: true }]);
      for (const { atMs } of kafka.requests.slice(before))
        assert.ok(atMs - startMs > 650, `${atMs - startMs} ms`);
      const line = lines.find((one) => one.includes('quota')) ?? '';
      assert.match(
        line,
        /delays events for 0\.7 s, by the quota producer_byte_rate .* of the client id "svc-tests"/,
      );
      await broker.close(1_000);
    });

    it('a request that was written before has its time anew', async () => {
      const broker = create(kafkaOptions([kafka.address], { requestTimeoutMs: 600 }));
      await broker.send('t', 0, [textRecord('x')]);
      kafka.answerAfterMs = 900;
      const late = broker.send('u', 0, [textRecord('late')]);
      await new Promise((resolve) => setTimeout(resolve, 100));
      [kafka.answerAfterMs, kafka.throttleMs] = [0, 700];
      assert.deepEqual(await broker.send('t', 0, [textRecord('y')]), { ok: true });
      assert.deepEqual(await late, { ok: true });
      await broker.close(1_000);
    });

    it('says once that a cluster has no producer ids, and sends without', async () => {
      kafka.close();
      kafka = await startFakeKafka({ hasProducerIds: false });
      const lines: string[] = [];
      const logger = logInto(lines);
      useLogger(logger);
      const broker = create(kafkaOptions([kafka.address], {}));
      for (const text of ['x', 'y'])
        assert.deepEqual(await broker.send('t', 0, [textRecord(text)]), { ok: true });
      assert.equal(lines.filter((line) => line.includes('InitProducerId')).length, 1);
      await broker.close(1_000);
    });

    it('sends nothing to a partition that was chosen by another number of partitions', async () => {
      const broker = create(kafkaOptions([kafka.address]));
      kafka.partitions = 4;
      assert.equal(await broker.partitionsFor('t'), 4);
      kafka.partitions = 2;
      const result = await broker.send('t', 1, [textRecord('x')]);
      assert.equal(result.ok ? '' : result.failure.cause, 'UNKNOWN_PARTITION');
      assert.equal(await broker.partitionsFor('t'), 2);
      assert.deepEqual(await broker.send('t', 1, [textRecord('x')]), { ok: true });
      await broker.close(1_000);
    });
  });
