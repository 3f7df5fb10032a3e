import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import type { Relay } from '../../src/outbox/relay/relay.ts';
import { openOutboxStore } from '../../src/start/adapters.ts';
import { kafkaClients } from '../adapters/kafka/kafka-clients.ts';
import { kafkaOptions } from '../adapters/kafka/kafka-options.ts';
import { relayOver, rowOf, until } from '../outbox/relay/relay-under-test.ts';
import { useClock } from '../support/fake-time.ts';
import { startKafka } from '../support/kafka.ts';
import { useLogger } from '../support/log.ts';
import { startPostgres } from '../support/postgres.ts';
import { requiring } from '../support/requires.ts';

const hourMs = 3_600_000;
const aggregates = 40;
const rounds = 10;

for (const { name, create } of kafkaClients)
  for (const offHours of [3, -3])
    requiring(
      ['postgres', 'kafka'],
      `a relay whose clock is ${offHours} h off, beside one, ${name}`,
      function () {
        this.timeout(60_000);
        const closing: (() => unknown)[] = [];
        afterEach(async () => {
          for (const close of closing.splice(0).reverse()) await close();
        });

        it('sends its rows at the right time, in order, and none is FAILED', async () => {
          const kafka = await startKafka();
          const topic = `clock.${randomUUID()}`;
          const config = Object.fromEntries(
            ['before', 'after'].map((side) => [`message.timestamp.${side}.max.ms`, String(hourMs)]),
          );
          await kafka.createTopic(topic, { partitions: 4, config });
          const url = await (await startPostgres()).freshDatabase();
          const open = () => {
            const store = openOutboxStore({ url, table: 'rows', initializeSchema: 'always' });
            closing.push(() => store.close(1_000));
            return store;
          };
          const writer = open();
          await writer.prepare();
          // Each relay has the clock and the log of the machine that it stands for.
          const machine = new AsyncLocalStorage<number>();
          useClock({ now: () => Date.now() + (machine.getStore() ?? 0) });
          const linesOf = new Map<number | undefined, string[]>();
          const say = (level: string) => (line: string) =>
            void linesOf.get(machine.getStore())?.push(`${level} ${line}`);
          useLogger({ info: say('info'), warn: say('warn'), error: say('error') });
          const startRelay = (offMs: number): { relay: Relay; lines: string[] } => {
            const broker = create(kafkaOptions(kafka.brokers));
            closing.push(() => broker.close(1_000));
            const lines: string[] = [];
            linesOf.set(offMs, lines);
            const relay = relayOver(
              { store: open(), broker },
              { pollIntervalMs: 100, leaseMs: 3_000, sendTimeoutMs: 1_500 },
            );
            closing.push(() => relay.stop(2_000));
            machine.run(offMs, () => relay.start());
            return { relay, lines };
          };
          const [off, right] = [startRelay(offHours * hourMs), startRelay(0)];
          // Both have shards.
          await until(() => shardsOf(off.relay) > 0 && shardsOf(right.relay) > 0, 15_000);
          for (let round = 0; round < rounds; round++)
            await writer.insert(
              Array.from({ length: aggregates }, (_, at) => rowOf(`a${at}`, round, { topic })),
            );
          const published = (): number => off.relay.state().processed.published;
          await until(
            () => published() + right.relay.state().processed.published >= aggregates * rounds,
            30_000,
          );
          assert.ok(published() > 0);
          const { failed, pending } = await writer.statistics();
          assert.deepEqual([failed, pending], [0, 0]);
          const records = await kafka.read(topic, { count: aggregates * rounds });
          const sequences = Map.groupBy(records, ({ key }) => key);
          assert.equal(sequences.size, aggregates);
          const inOrder = Array.from({ length: rounds }, (_, round) => String(round));
          for (const sent of sequences.values())
            assert.deepEqual(
              sent.map(({ headers }) => headers.seq),
              inOrder,
            );
          assert.ok(records.every(({ timestamp }) => Math.abs(timestamp - Date.now()) < hourMs / 10));
          const says = offHours > 0 ? 'ahead of' : 'behind';
          assert.match(
            off.lines.join('\n'),
            new RegExp(`error outbox: the clock of this machine is 10800 s ${says}`),
          );
          assert.doesNotMatch(right.lines.join('\n'), /clock/);
        });
      },
    );

const shardsOf = (relay: Relay): number =>
  Array.from({ length: 64 }, (_, shard) => relay.holds(shard)).filter(Boolean).length;
