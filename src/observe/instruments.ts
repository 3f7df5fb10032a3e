import type { Attributes, DurationInstrument, Observe, ObservedInstrument } from './metrics.ts';
import { type EventTypeCounts, sendFailureKinds } from './outcomes.ts';

export const publishDuration: DurationInstrument = {
  name: 'svc.events.publish.duration',
  prometheusName: 'svc_events_publish_duration_seconds',
  kind: 'histogram',
  unit: 's',
  description: 'Time from the hand-over of an event to the publisher until its outcome.',
  attributeKeys: ['eventType'],
};

const none: Attributes = {};

/** What is not known has no series. */
const known = (value: number | null | undefined, observe: Observe): void => {
  if (value !== null && value !== undefined) observe(value, none);
};

/** Every instrument of svc but the duration. `docs/metrics.md` shows the same list (tested). */
export const observedInstruments: readonly ObservedInstrument[] = [
  eventCounter(
    'calls',
    'Calls whose event svc took on: the sum of all outcomes and of what is in flight.',
    (row) => row.calls,
  ),
  eventCounter(
    'published',
    'Events acknowledged on their topic.',
    (row) => row.published + row.relayed,
    'svc.events.published.total',
  ),
  eventCounter(
    'failed',
    'Events that did not get to their topic: dead letter topic, backup, refused, lost, and given up in the outbox.',
    (row) => row.dlq + row.backup + row.refused + row.lost + row.gaveUp,
    'svc.events.failed.total',
  ),
  eventCounter(
    'dlq',
    'Events that ended in the dead letter topic.',
    (row) => row.dlq,
    'svc.dlq.events.total',
  ),
  eventCounter('backup', 'Events that ended in a backup.', (row) => row.backup),
  eventCounter('outbox', 'Events stored in the outbox, to be published from there.', (row) => row.outbox),
  eventCounter(
    'rolled_back',
    'Events that were undone with the transaction of their call.',
    (row) => row.rolled_back,
  ),
  eventCounter(
    'refused',
    'Events that svc would not send: not protected, not serializable, or too late.',
    (row) => row.refused,
  ),
  eventCounter('lost', 'Events that no tier took.', (row) => row.lost),
  eventCounter('dlq.failed', 'Events that the dead letter topic did not take.', (row) => row.dlqFailures),
  {
    ...eventCounter('retry.count', 'Sends after the first one of an event.', (row) => row.retries),
    unit: '{retry}',
  },
  {
    ...eventCounter('in_flight', 'Events without an outcome yet.', (row) => row.inFlight),
    prometheusName: 'svc_events_in_flight',
    kind: 'upDownCounter',
  },
  {
    name: 'svc.broker.errors.total',
    prometheusName: 'svc_broker_errors_total',
    kind: 'counter',
    unit: '{error}',
    description: 'Sends that the broker refused or that never reached it.',
    attributeKeys: ['kind'],
    read: ({ ledger }, observe) => {
      const errors = ledger.brokerErrors();
      for (const kind of sendFailureKinds) observe(errors[kind], { kind });
    },
  },
  {
    name: 'svc.circuit.state',
    prometheusName: 'svc_circuit_state',
    kind: 'gauge',
    unit: '1',
    description:
      'Circuit breaker in front of the broker, and that of the outbox: 0 closed, 1 open, 2 half-open.',
    attributeKeys: ['breaker'],
    read: ({ circuit, outbox }, observe) => {
      observe(circuit(), { breaker: 'broker' });
      const ofOutbox = outbox?.circuit() ?? null;
      if (ofOutbox !== null) observe(ofOutbox, { breaker: 'outbox' });
    },
  },
  {
    name: 'svc.buffer.events',
    prometheusName: 'svc_buffer_events',
    kind: 'gauge',
    unit: '{event}',
    description: 'Events in memory until they are acknowledged.',
    attributeKeys: [],
    read: ({ buffer }, observe) => observe(buffer().events, none),
  },
  {
    name: 'svc.buffer.bytes',
    prometheusName: 'svc_buffer_bytes',
    kind: 'gauge',
    unit: 'By',
    description: 'Bytes of the events in memory.',
    attributeKeys: [],
    read: ({ buffer }, observe) => observe(buffer().bytes, none),
  },
  {
    name: 'svc.buffer.overflows',
    prometheusName: 'svc_buffer_overflows_total',
    kind: 'counter',
    unit: '{event}',
    description: 'Events that went to the next tier because there was no room in memory.',
    attributeKeys: [],
    read: ({ buffer }, observe) => observe(buffer().overflows, none),
  },
  {
    name: 'svc.backup.events',
    prometheusName: 'svc_backup_events',
    kind: 'gauge',
    unit: '{event}',
    description: 'Events that wait in the local backup.',
    attributeKeys: [],
    read: ({ backup }, observe) => observe(backup().events, none),
  },
  {
    name: 'svc.backup.files',
    prometheusName: 'svc_backup_files',
    kind: 'gauge',
    unit: '{file}',
    description: 'Files in the local backup, of one event or of many.',
    attributeKeys: [],
    read: ({ backup }, observe) => observe(backup().files, none),
  },
  {
    name: 'svc.backup.bytes',
    prometheusName: 'svc_backup_bytes',
    kind: 'gauge',
    unit: 'By',
    description: 'Bytes of the files in the local backup.',
    attributeKeys: [],
    read: ({ backup }, observe) => observe(backup().bytes, none),
  },
  {
    name: 'svc.backup.too_large.events',
    prometheusName: 'svc_backup_too_large_events',
    kind: 'gauge',
    unit: '{event}',
    description:
      'Events in too-large/ of the local backup: their topic does not take them, and nothing tries them again.',
    attributeKeys: [],
    read: ({ backup }, observe) => observe(backup().tooLarge, none),
  },
  {
    name: 'svc.backup.drained',
    prometheusName: 'svc_backup_drained_total',
    kind: 'counter',
    unit: '{event}',
    description: 'Events that went from the local backup to their topics.',
    attributeKeys: [],
    read: ({ backup }, observe) => observe(backup().drained, none),
  },
  {
    name: 'svc.backup.oldest.age.seconds',
    prometheusName: 'svc_backup_oldest_age_seconds',
    kind: 'gauge',
    unit: 's',
    description:
      'How long the oldest event has waited in the local backup that new events wait behind; 0 where none does.',
    attributeKeys: [],
    read: ({ backup }, observe) => observe(backup().oldestMs / 1000, none),
  },
  {
    name: 'svc.outbox.pending',
    prometheusName: 'svc_outbox_pending',
    kind: 'gauge',
    unit: '{event}',
    description: 'Events in the outbox that wait to be sent.',
    attributeKeys: [],
    read: ({ outbox }, observe) => known(outbox?.pending(), observe),
  },
  {
    name: 'svc.outbox.oldest_pending.age.seconds',
    prometheusName: 'svc_outbox_oldest_pending_age_seconds',
    kind: 'gauge',
    unit: 's',
    description: 'Age of the oldest event in the outbox that waits to be sent; 0 where none does.',
    attributeKeys: [],
    read: ({ outbox }, observe) => {
      const ageMs = outbox?.oldestPendingMs() ?? (outbox?.pending() === 0 ? 0 : null);
      known(ageMs === null ? null : ageMs / 1_000, observe);
    },
  },
  {
    ...{ name: 'svc.outbox.failed', prometheusName: 'svc_outbox_failed', kind: 'gauge', unit: '{event}' },
    description: 'Events in the outbox that were given up: FAILED, until somebody retries or discards them.',
    attributeKeys: [],
    read: ({ outbox }, observe) => known(outbox?.failed(), observe),
  },
  {
    name: 'svc.outbox.processed',
    prometheusName: 'svc_outbox_processed_total',
    kind: 'counter',
    unit: '{event}',
    description: 'Events of the outbox that this process has sent, or given up.',
    attributeKeys: ['eventType', 'outcome'],
    read: ({ ledger, outbox }, observe) => {
      if (outbox === undefined) return;
      for (const { attributes, relayed, gaveUp } of ledger.rows()) {
        observe(relayed, { ...attributes, outcome: 'published' });
        observe(gaveUp, { ...attributes, outcome: 'failed' });
      }
    },
  },
  {
    name: 'svc.outbox.unconfirmed',
    prometheusName: 'svc_outbox_unconfirmed_total',
    kind: 'counter',
    unit: '{event}',
    description:
      'Events of transactions whose COMMIT had no answer, or was out of sight: counted as stored, and perhaps not.',
    attributeKeys: [],
    read: ({ outbox }, observe) => {
      if (outbox !== undefined) observe(outbox.unconfirmed(), none);
    },
  },
  {
    name: 'svc.worker.id',
    prometheusName: 'svc_worker_id',
    kind: 'gauge',
    unit: '1',
    description: 'Worker id in event ids, by how it was come by.',
    attributeKeys: ['source'],
    read({ worker }, observe) {
      const state = worker();
      if (state !== undefined) observe(state.workerId, { source: state.source });
    },
  },
  {
    name: 'svc.capture.targets',
    prometheusName: 'svc_capture_targets',
    kind: 'gauge',
    unit: '{target}',
    description: 'Configured publish targets by state.',
    attributeKeys: ['state'],
    read: ({ captureTargets }, observe) => {
      const counts = new Map<string, number>();
      for (const { state } of captureTargets()) counts.set(state, (counts.get(state) ?? 0) + 1);
      for (const [state, count] of counts) observe(count, { state });
    },
  },
  {
    name: 'svc.capture.calls',
    prometheusName: 'svc_capture_calls_total',
    kind: 'counter',
    unit: '{call}',
    description: 'Calls of a captured function that have ended, by what became of them.',
    attributeKeys: ['target', 'result'],
    read: ({ captureTargets }, observe) => {
      for (const { target, calls, failed, skipped } of captureTargets()) {
        observe(calls - failed - skipped, { target, result: 'event' });
        observe(failed, { target, result: 'failed' });
        observe(skipped, { target, result: 'skipped' });
      }
    },
  },
];

function eventCounter(
  what: string,
  description: string,
  count: (row: EventTypeCounts) => number,
  alias?: string,
): ObservedInstrument {
  const prometheusName = counterName(`svc.events.${what}`);
  const prometheusAlias = alias === undefined ? prometheusName : counterName(alias);
  return {
    name: `svc.events.${what}`,
    prometheusName,
    ...(alias === undefined ? {} : { alias }),
    ...(prometheusAlias === prometheusName ? {} : { prometheusAlias }),
    kind: 'counter',
    unit: '{event}',
    description,
    attributeKeys: ['eventType'],
    read: ({ ledger }, observe) => {
      for (const row of ledger.rows()) observe(count(row), row.attributes);
    },
  };
}

/** `svc.events.published` and `svc.events.published.total` are both `svc_events_published_total`. */
function counterName(name: string): string {
  const plain = name.replaceAll('.', '_');
  return plain.endsWith('_total') ? plain : `${plain}_total`;
}
