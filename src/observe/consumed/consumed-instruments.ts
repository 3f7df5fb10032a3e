import type { ObservedInstrument } from '../metrics.ts';
import { allConsumed, type ConsumedRow, consumedOutcomes } from './consumed-counts.ts';

/** Without `consumeOnce` in the process none of them has a series. */
export const consumedInstruments: readonly ObservedInstrument[] = [
  {
    ...{ name: 'svc.consumer.events', prometheusName: 'svc_consumer_events_total', kind: 'counter' },
    unit: '{event}',
    description: 'Events that consumeOnce() took in hand, by what became of them.',
    attributeKeys: ['consumer', 'eventType', 'outcome'],
    read(_, observe) {
      for (const row of allRows())
        for (const outcome of consumedOutcomes) observe(row[outcome], { ...row.attributes, outcome });
    },
  },
  rowCounter('retries', '{retry}', 'Tries after the first one of an event.', (row) => row.retries),
  rowCounter(
    'handler.seconds',
    's',
    'What handlers took, with their transactions: a rate of it is how many are at work.',
    (row) => row.seconds,
  ),
  {
    ...{ name: 'svc.consumer.waiting', prometheusName: 'svc_consumer_waiting', kind: 'gauge' },
    unit: '{partition}',
    description: 'Partitions that wait for another try, or for a handler that takes longer than it may.',
    attributeKeys: ['consumer'],
    read(_, observe) {
      for (const [consumer, { waiting }] of allConsumed()) observe(waiting, { consumer });
    },
  },
];

function rowCounter(
  what: string,
  unit: string,
  description: string,
  count: (row: ConsumedRow) => number,
): ObservedInstrument {
  const name = `svc.consumer.${what}`;
  return {
    ...{ name, prometheusName: `${name.replaceAll('.', '_')}_total`, kind: 'counter', unit, description },
    attributeKeys: ['consumer', 'eventType'],
    read(_, observe) {
      for (const row of allRows()) observe(count(row), row.attributes);
    },
  };
}

function* allRows(): Iterable<ConsumedRow> {
  for (const [, events] of allConsumed()) yield* events.all();
}
