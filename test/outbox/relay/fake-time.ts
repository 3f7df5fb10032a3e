import sinon from 'sinon';
import { createLedger, createPublishDurations } from '../../../src/observe/outcomes.ts';
import type { OutboxRow } from '../../../src/outbox/outbox-row.ts';
import type { RelaySettings } from '../../../src/outbox/relay/relay.ts';
import { useClock } from '../../support/fake-time.ts';
import { useLogger } from '../../support/log.ts';
import { createMemoryOutboxStore, type MemoryTable } from '../memory-outbox-store.ts';
import { collectLines, createFakeBroker, relayOver } from './relay-under-test.ts';

/** A relay on a clock that the test moves. */
export function onFakeTime({ table, partitions }: { table?: MemoryTable; partitions?: number } = {}) {
  const time = sinon.useFakeTimers({
    toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'],
    now: 0,
  });
  const nowMs = (): number => time.now;
  useClock({ now: nowMs, monotonic: nowMs });
  const store = createMemoryOutboxStore(nowMs, table);
  const broker = createFakeBroker(nowMs, partitions);
  const { lines, logger } = collectLines();
  useLogger(logger);
  const counters = { ledger: createLedger(), durations: createPublishDurations() };
  return {
    ...{ time, store, broker, lines, counters },
    relay: (settings: Partial<RelaySettings> = {}, owner?: string) =>
      relayOver({ store, broker, counters, ...(owner === undefined ? {} : { owner }) }, settings),
    insert: (...rows: OutboxRow[]) => store.insert(rows),
    /** `orders 0: 1,2` for each send, and the second it was at. */
    sends: () =>
      broker.sends.map(
        ({ topic, records, atMs }) =>
          `${atMs / 1_000} ${topic} ${records.map(({ headers }) => `${headers.aggregateId}${headers.seq}`)}`,
      ),
    /** What was said from info on. */
    said: () => lines.filter((line) => !line.startsWith('debug')),
  };
}
