import { SvcError } from '../../ground/errors.ts';
import type { Severity } from '../../ground/event-fields.ts';
import type { PiiRules } from '../../ground/pii-rule.ts';
import { type Check, checkFields, checks, must, notEmpty } from '../../publish/api/check-options.ts';
import type { PublishOptions } from '../../publish/publisher.ts';

/** One event for the outbox that the application makes itself. */
export interface OutboxEvent extends Pick<PublishOptions, 'severity' | 'topic' | 'headers'> {
  readonly eventType: string;
  /** What the event is about: `Order`. */
  readonly aggregateType: string;
  /** Which of them. Events of one aggregate are sent in their order; it goes out in clear. */
  readonly aggregateId: string | number | bigint;
  readonly payload: unknown;
  /** Record key. Default: the aggregate id. */
  readonly key?: string | number | bigint;
  /** Rules for personal data, as `pii` of a target: they hold for all events of this type from now on. */
  readonly pii?: PiiRules;
}

/** An event as the pipeline takes it. */
export interface CheckedEvent {
  readonly eventType: string;
  readonly aggregateType: string;
  readonly aggregateId: string;
  readonly payload: unknown;
  readonly severity: Severity;
  readonly topic: string | undefined;
  readonly key: string;
  readonly headers: PublishOptions['headers'];
  readonly pii: unknown;
  /** Why it cannot be stored. It is counted under what was right. */
  readonly mistake: SvcError | undefined;
}

const asIs: Check = (value) => value;
/** An id that is empty would have no order, and nothing to be found by. */
const id: Check = (value) => {
  const text = checks.key(value);
  return text === '' ? must('a non-empty string, or a number') : text;
};

const fields = {
  eventType: notEmpty,
  aggregateType: notEmpty,
  aggregateId: id,
  payload: asIs,
  severity: checks.severity,
  topic: checks.topic,
  key: checks.key,
  headers: checks.headers,
  pii: asIs,
};
const required = ['eventType', 'aggregateType', 'aggregateId'] as const;

/** Never throws, and names no value. */
export function checkEvent(given: unknown): CheckedEvent {
  const found = checkFields(given, fields, mistake);
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
    headers: found.headers as PublishOptions['headers'],
    pii: found.pii,
    mistake: found.mistake ?? (missing && mistake(`${missing} is required`)),
  };
}

function mistake(what: string): SvcError {
  return new SvcError('SVC_OUTBOX_EVENT', `outbox.save(): ${what}`);
}
