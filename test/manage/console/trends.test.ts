import assert from 'node:assert/strict';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { ConsoleDocument } from '../../../src/manage/views.ts';
import { createLedger } from '../../../src/observe/outcomes.ts';
import { filledSources, metricSources } from '../../observe/metric-sources.ts';
import { clockOfEach } from '../../support/fake-time.ts';
import { viewsOf } from '../fake-views.ts';

const maxTrends = 50;
const stepMs = 10_000;

/** Of a process with these event types. */
function page(types: Readonly<Record<string, number>>, sources = metricSources()) {
  const publish = (type: string, count: number): void => {
    for (let event = 0; event < count; event++) sources.ledger.open(type).close('published');
  };
  for (const [type, count] of Object.entries(types)) publish(type, count);
  const views = viewsOf(sources);
  const content = async () => (await views.console(0)) as ConsoleDocument;
  return { publish, content, trends: async () => (await content()).trends, close: views.close };
}

describe('trends of event types', () => {
  const clock = clockOfEach();

  it('have what there was within each step, ten minutes of it at most', async () => {
    const { publish, trends, close } = page({ A: 100 });
    assert.deepEqual(await trends(), [{ eventType: 'A', events: [] }]);
    for (let step = 1; step <= 61; step++) {
      publish('A', step);
      clock.tick(stepMs);
    }
    assert.deepEqual(await trends(), [
      { eventType: 'A', events: Array.from({ length: 60 }, (_, index) => index + 2) },
    ]);
    close();
  });

  it(`are those of the ${maxTrends} busiest; one that comes among them begins without a past`, async () => {
    const all = Array.from({ length: 60 }, (_, n) => [`T${n}`, 100 - n] as const);
    const { publish, trends, close } = page(Object.fromEntries(all));
    const names = async (): Promise<string[]> => (await trends()).map(({ eventType }) => eventType);
    clock.tick(stepMs);
    assert.deepEqual(
      await names(),
      Array.from({ length: maxTrends }, (_, n) => `T${n}`),
    );
    publish('T59', 500);
    clock.tick(stepMs);
    const now = await names();
    assert.deepEqual([now.length, now[0], now.includes('T49')], [maxTrends, 'T59', false]);
    assert.deepEqual((await trends())[0]?.events, []);
    publish('T59', 7);
    clock.tick(stepMs);
    assert.deepEqual((await trends())[0]?.events, [7]);
    close();
  });

  it('count events that got to their topic, and those that did not, as the table of types does', async () => {
    const ledger = createLedger();
    ledger.declare(['ORDER_CREATED', 'ORDER_CANCELLED']);
    const { content, close } = page({}, metricSources([], ledger));
    filledSources(ledger);
    clock.tick(stepMs);
    const { trends, types } = await content();
    const ofTrends = trends.map(({ eventType, events }) => [eventType, ...events]);
    assert.deepEqual(ofTrends, [
      ['ORDER_CREATED', 48],
      ['ORDER_CANCELLED', 1],
    ]);
    assert.deepEqual(
      types.map(({ eventType, published, failed }) => [eventType, published + failed]),
      ofTrends,
    );
    close();
  });

  it('take names as they come', async () => {
    const { trends, close } = page({ ['__proto__']: 1 });
    assert.equal((await trends())[0]?.eventType, '__proto__');
    close();
  });
});

describe('what is kept of the last hour', () => {
  const clock = clockOfEach();

  it('is 1 MB at most, with 10,000 event types too', async () => {
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    const sources = metricSources();
    // More than the ledger keeps apart.
    for (let n = 0; n < 10_000; n++) sources.ledger.open(`TYPE_${n}`).close('published');
    const used = (): number => {
      for (let round = 0; round < 3; round++) collect();
      return process.memoryUsage().heapUsed;
    };
    const begin = () => viewsOf(sources);
    // What is compiled meanwhile is none of it.
    const warmUp = () => {
      const { close } = begin();
      clock.tick(100_000);
      close();
    };
    warmUp();
    const before = used();
    const { console, close } = begin();
    clock.tick(3_700_000);
    const kept = used() - before;
    assert.ok(kept < 1_000_000, `${kept} bytes`);
    const { history, trends } = (await console(0)) as ConsoleDocument;
    assert.deepEqual([history.atMs.length, trends.length], [360, maxTrends]);
    assert.equal(trends[0]?.events.length, 60);
    close();
  }).timeout(60_000);
});
