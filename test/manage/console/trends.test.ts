import assert from 'node:assert/strict';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { watchHealth } from '../../../src/manage/health.ts';
import { countsOf, createTrends, levelsOf, totalsByType } from '../../../src/manage/views.ts';
import { filledSources, metricSources } from '../../observe/metric-sources.ts';
import { clockOfEach } from '../../support/fake-time.ts';

const maxTrends = 50;

describe('trends of event types', () => {
  it('have what there was within each step, ten minutes of it at most', () => {
    const totals = new Map([['A', 100]]);
    const trends = createTrends(() => totals);
    assert.deepEqual(trends.all(), [{ eventType: 'A', events: [] }]);
    for (let step = 1; step <= 61; step++) {
      totals.set('A', (totals.get('A') ?? 0) + step);
      trends.step();
    }
    assert.deepEqual(trends.all(), [
      { eventType: 'A', events: Array.from({ length: 60 }, (_, index) => index + 2) },
    ]);
  });

  it(`are those of the ${maxTrends} busiest; one that comes among them begins without a past`, () => {
    const totals = new Map(Array.from({ length: 60 }, (_, n) => [`T${n}`, 1_000 - n]));
    const trends = createTrends(() => totals);
    trends.step();
    const names = (): string[] => trends.all().map(({ eventType }) => eventType);
    assert.deepEqual(
      names(),
      Array.from({ length: maxTrends }, (_, n) => `T${n}`),
    );
    totals.set('T59', 5_000);
    trends.step();
    assert.deepEqual([names().length, names()[0], names().includes('T49')], [maxTrends, 'T59', false]);
    assert.deepEqual(trends.all()[0]?.events, []);
    totals.set('T59', 5_007);
    trends.step();
    assert.deepEqual(trends.all()[0]?.events, [7]);
  });

  it('count events that got to their topic, and those that did not, as the table of types does', () => {
    const totals = totalsByType(filledSources());
    assert.equal(totals.get('ORDER_CANCELLED'), 1);
    assert.ok((totals.get('ORDER_CREATED') ?? 0) > 40);
  });

  it('take names as they come', () => {
    const trends = createTrends(() => new Map([['__proto__', 1]]));
    assert.equal(trends.all()[0]?.eventType, '__proto__');
  });
});

describe('what is kept of the last hour', () => {
  const clock = clockOfEach();

  it('is 1 MB at most, with 10,000 event types too', () => {
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    const sources = metricSources();
    const types = Array.from({ length: 10_000 }, (_, n) => [`TYPE_${n}`, n] as const);
    for (const [type] of types) sources.ledger.open(type).close('published');
    // More than the ledger keeps apart.
    const totals = new Map(types);
    const used = (): number => {
      for (let round = 0; round < 3; round++) collect();
      return process.memoryUsage().heapUsed;
    };
    const begin = () => {
      const trends = createTrends(() => totals);
      const read = () => ({ ...countsOf(sources), ...levelsOf(sources, clock.now) });
      const recent = watchHealth({
        ...{ totals: () => countsOf(sources), sample: read, onStep: trends.step },
        probe: async () => ({ clusterId: 'c', nodeCount: 1 }),
        known: () => ({ brokerProducerInitialized: true, topic: 't', dlqTopic: null }),
      });
      return { trends, recent };
    };
    // What is compiled meanwhile is none of it.
    const warmUp = () => {
      const { recent } = begin();
      clock.tick(100_000);
      recent.close();
    };
    warmUp();
    const before = used();
    const { trends, recent } = begin();
    clock.tick(3_700_000);
    const kept = used() - before;
    assert.ok(kept < 1_000_000, `${kept} bytes`);
    assert.deepEqual([recent.samples().length, trends.all().length], [361, maxTrends]);
    assert.equal(trends.all()[0]?.events.length, 60);
    recent.close();
  }).timeout(60_000);
});
