import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { Outcome } from '../../../src/observe/outcomes.ts';
import { clockOfEach } from '../../support/fake-time.ts';
import { event } from '../fake-cluster.ts';
import { createModelCluster, type Weather } from './model-cluster.ts';
import { createModelFolder } from './model-folder.ts';
import { type ModelProcess, startProcess } from './model-process.ts';

const weather = fc.constantFrom<Weather>(
  'up',
  'up',
  'away',
  'away',
  'silent',
  'loses answers',
  'refuses refused',
);
const step = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record({
      what: fc.constant('burst' as const),
      by: fc.nat(1),
      count: fc.integer({ min: 1, max: 30 }),
      topic: fc.constantFrom('orders', 'orders', 'refused'),
      gapMs: fc.constantFrom(0, 1, 7),
    }),
  },
  { weight: 5, arbitrary: fc.record({ what: fc.constant('weather' as const), weather }) },
  {
    weight: 6,
    arbitrary: fc.record({
      what: fc.constant('pause' as const),
      ms: fc.constantFrom(1, 20, 300, 1_500, 9_000, 70_000),
    }),
  },
  { weight: 2, arbitrary: fc.record({ what: fc.constant('crash' as const), by: fc.nat(1) }) },
  { weight: 1, arbitrary: fc.record({ what: fc.constant('close' as const), by: fc.nat(1) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      what: fc.constant('partitions' as const),
      count: fc.constantFrom(3, 5, undefined),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ what: fc.constant('write' as const), ms: fc.constantFrom(1, 10, 50) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ what: fc.constant('room' as const), events: fc.constantFrom(0, 5, 20) }),
  },
);
const scenario = fc.record({
  steps: fc.array(step, { minLength: 5, maxLength: 40, size: 'max' }),
  processes: fc.constantFrom(1, 2),
  bufferEvents: fc.constantFrom(8, 10_000),
  eventsBehindBackup: fc.constantFrom(3, 5_000),
});

describe('order of keys over outages', () => {
  const clock = clockOfEach({ now: 1_700_000_000_000 });

  it('no schedule of outages, crashes and restarts leads to an inversion or a loss', async () => {
    await fc.assert(
      fc.asyncProperty(scenario, async ({ steps, processes: count, bufferEvents, eventsBehindBackup }) => {
        const cluster = createModelCluster();
        const folder = createModelFolder();
        const outcomes = new Map<string, Outcome>();
        let generation = 0;
        const start = (): ModelProcess =>
          startProcess(++generation, folder, cluster, {
            buffer: { maxEvents: bufferEvents, maxBytes: 1e9 },
            behindBackup: { maxEvents: eventsBehindBackup, maxBytes: 1e9 },
          });
        const processes = Array.from({ length: count }, start);
        const all = [...processes];
        let sequence = 0;

        function publish(by: number, topic: string): void {
          const number = ++sequence;
          const process = processes[by] as ModelProcess;
          const of = process.generation;
          // A clock that went back between two lives of a process: ids of the later one are lower.
          const eventId = String((1_000 - of) * 1_000_000 + number);
          // Of several processes each keeps the order of its own events; one alone that of its earlier lives, too.
          const key = `${count === 1 ? 'one' : of}-${number % 4}`;
          void process.queue
            .publish(event(eventId, { key, topic, headers: { eventId, sequence: String(number) } }))
            .then((outcome) => process.isDead || outcomes.set(eventId, outcome));
        }

        for (const one of steps) {
          if (one.what === 'weather') cluster.weather = one.weather;
          else if (one.what === 'pause') await clock.tickAsync(one.ms);
          else if (one.what === 'partitions') cluster.partitions = one.count;
          else if (one.what === 'write') folder.writeMs = one.ms;
          else if (one.what === 'room') folder.room = one.events;
          else {
            const by = one.by % count;
            const process = processes[by] as ModelProcess;
            if (one.what === 'burst') {
              for (let n = 0; n < one.count; n++) {
                publish(by, one.topic);
                if (one.gapMs > 0) await clock.tickAsync(one.gapMs);
              }
              continue;
            }
            if (one.what === 'close') {
              let isClosed = false;
              void process.close().then(() => {
                isClosed = true;
              });
              await clock.tickAsync(40_000);
              assert.ok(isClosed, 'close did not end');
            }
            process.isDead = true;
            processes[by] = start();
            all.push(processes[by] as ModelProcess);
          }
        }
        cluster.weather = 'up';
        cluster.partitions ??= 3;
        folder.writeMs = 1;
        folder.room = Number.POSITIVE_INFINITY;
        await clock.tickAsync(400_000);

        const wasFull = steps.some(({ what }) => what === 'room');
        const lost = all.flatMap((process) => process.lost);
        assert.deepEqual(wasFull ? [] : lost, [], 'lost, and there was room');
        for (const [id, outcome] of outcomes)
          if (outcome === 'lost') assert.ok(lost.includes(id), 'no alert');
        assert.equal(folder.waiting(), 0, 'left in the folder');
        const ids = new Set(cluster.stored.map(({ id }) => id));
        for (const [id, outcome] of outcomes) {
          if (outcome === 'lost') continue;
          assert.ok(outcome === 'published' || outcome === 'backup', outcome);
          assert.ok(ids.has(id), `${id} is ${outcome} and not in the topic`);
        }
        const firsts = new Map<string, number>();
        const seen = new Set<string>();
        for (const { topic, key, id } of cluster.stored) {
          // What a killed process had told nobody of may arrive late, or never.
          if (seen.has(id) || !outcomes.has(id) || outcomes.get(id) === 'lost') continue;
          seen.add(id);
          const number = Number(id) % 1_000_000;
          const before = firsts.get(`${topic} ${key}`) ?? 0;
          assert.ok(number > before, `${topic} ${key}: ${number} after ${before}`);
          firsts.set(`${topic} ${key}`, number);
        }
        for (const process of processes) {
          assert.equal(process.oldestMs(), 0, 'still behind');
          process.isDead = true;
        }
        clock.reset();
      }),
      { numRuns: Number(process.env.ORDER_RUNS ?? 150) },
    );
  }).timeout(120_000);
});
