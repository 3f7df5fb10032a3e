import { SvcError } from '../../ground/errors.ts';
import type { Severity } from '../../ground/event-fields.ts';
import type { PiiRules } from '../../ground/pii-rule.ts';
import { createCheck } from '../../publish/api/check-options.ts';
import type { PublishOptions } from '../../publish/publisher.ts';

/** One event for the outbox, made by the application. */
export interface OutboxEvent extends Pick<PublishOptions, 'severity' | 'topic' | 'headers'> {
  readonly eventType: string;
  /** Type of the entity that the event is about: `Order`. */
  readonly aggregateType: string;
  /** Id of the entity. Events of one aggregate are sent in order. It is not encrypted. */
  readonly aggregateId: string | number | bigint;
  readonly payload: unknown;
  /** Record key. Default: the aggregate id. */
  readonly key?: string | number | bigint;
  /** Rules for personal data, like `pii` of a target. They apply to all later events of this type. */
  readonly pii?: PiiRules;
}

export interface CheckedEvent {
  readonly eventType: string;
  readonly aggregateType: string;
  readonly aggregateId: string;
  readonly payload: unknown;
  readonly severity: Severity;
  readonly topic: string | undefined;
  readonly key: string;
  /** Makes the headers of the record, or throws why it cannot. */
  readonly headers: (() => Readonly<Record<string, string>>) | undefined;
  readonly pii: unknown;
  /** Why it cannot be stored. The valid fields still label it in metrics. */
  readonly mistake: SvcError | undefined;
}

const checkFields = createCheck(
  ({ severity, topic, key, headers, notEmpty, asIs, must }) => ({
    ...{ eventType: notEmpty, aggregateType: notEmpty },
    /** An empty id would identify no aggregate. */
    aggregateId: (value) => key(value) || must('a non-empty string, or a number'),
    ...{ payload: asIs, severity, topic, key, headers, pii: asIs },
  }),
  mistake,
);
const required = ['eventType', 'aggregateType', 'aggregateId'] as const;

/** Never throws. Messages contain no values. */
export function checkEvent(given: unknown): CheckedEvent {
  const found = checkFields(given);
  const missing = required.find((name) => found[name] === undefined);
  const {
    eventType = 'Event',
    aggregateType = '',
    aggregateId = '',
    severity = 'INFO',
    key,
  } = found as Partial<CheckedEvent>;
  return {
    ...(found as Partial<CheckedEvent>),
    eventType,
    aggregateType,
    aggregateId,
    severity,
    key: key ?? aggregateId,
    payload: found.payload ?? null,
    topic: found.topic as string | undefined,
    headers: found.headers as CheckedEvent['headers'],
    pii: found.pii,
    mistake: found.mistake ?? (missing && mistake(`${missing} is required`)),
  };
}

function mistake(what: string): SvcError {
  return new SvcError('SVC_OUTBOX_EVENT', `outbox.save(): ${what}`);
}
