import type { Context } from '@opentelemetry/api';
import type { Call } from '../capture/call.ts';
import type { ExpressionScope } from '../capture/expression/scope.ts';
import type { CapturePlan } from '../capture/plan.ts';
import { type ErrorCode, SvcError } from '../ground/errors.ts';
import type { Severity } from '../ground/event-fields.ts';
import type { CheckedEvent } from '../outbox/api/outbox-event.ts';
import type { ClearText } from '../protect/clear-texts.ts';
import { hasMarks, isMarkedField } from '../protect/marks/class-marks.ts';
import { headersOf } from '../publish/api/headers.ts';

/** What all ways in, a captured call, `publish()` and `outbox.save()`, say about one event. */
export interface Intake {
  readonly eventType: string;
  readonly severity: Severity;
  readonly topic: string | undefined;
  readonly key: string | undefined;
  /** The application's own; names are checked. */
  readonly headers: Readonly<Record<string, string>> | undefined;
  /** Of an event for the outbox. */
  readonly aggregateType?: string | undefined;
  readonly aggregateId?: string | undefined;
  readonly payload: unknown;
  readonly context: Context | undefined;
}

/** @param usesMarks expressions of what goes out in clear may not read what classes mark */
export function intakeOf(call: Call, usesMarks: boolean): Intake {
  const plan: CapturePlan = call.plan;
  if (call.refusal !== undefined) throw call.refusal;
  const isGuarded = usesMarks && hasMarks();
  const forKey = isGuarded ? inClear(call, 'SVC_PROTECT_KEY_IN_CLEAR') : call;
  const forHeaders = isGuarded ? inClear(call, 'SVC_PROTECT_HEADER_IN_CLEAR') : call;
  return {
    eventType: plan.eventType,
    severity: plan.severity,
    topic: plan.topic,
    key: plan.key?.(forKey),
    headers: plan.headers?.(forHeaders),
    aggregateType: plan.outbox?.aggregateType,
    aggregateId: plan.outbox?.aggregateId(forKey),
    payload: plan.payload(call),
    context: call.context,
  };
}

/** What an intake gives or throws; `undefined`: it needs a result that is not known yet. */
export function takeNow(intake: () => Intake): (() => Intake) | undefined {
  try {
    const taken = intake();
    return () => taken;
  } catch (error) {
    if (error instanceof SvcError && error.code === 'SVC_CAPTURE_RESULT_UNKNOWN') return undefined;
    return () => {
      throw error;
    };
  }
}

function inClear(call: Call, code: ErrorCode): ExpressionScope {
  const { args, self, error } = call;
  const refuses = (target: unknown, field: string) => (isMarkedField(target, field) ? code : undefined);
  return {
    ...{ args, self, error, refuses },
    get result() {
      return call.result;
    },
  };
}

export function intakeOfEvent(event: CheckedEvent): Intake {
  if (event.mistake !== undefined) throw event.mistake;
  return { ...event, headers: headersOf(event.headers), context: undefined };
}

/** What no value but a word is. */
const usualName = /^[a-z][a-z0-9_-]*$/i;

/** The key that stands in for none is the event id, which nobody has to look at. */
export function textsInClear({ key, headers, aggregateId }: Intake): readonly ClearText[] | undefined {
  if (headers === undefined && key === undefined && aggregateId === undefined) return undefined;
  const texts: ClearText[] = [];
  if (headers !== undefined) {
    for (const [name, text] of Object.entries(headers)) {
      texts.push({ of: 'header', text });
      if (!usualName.test(name)) texts.push({ of: 'header', text: name });
    }
  }
  if (key !== undefined) texts.push({ of: 'key', text: key });
  if (aggregateId !== undefined && aggregateId !== key) texts.push({ of: 'key', text: aggregateId });
  return texts;
}

/** Of the class, never of a field `constructor`: the name goes out in clear. What throws here is not the caller's to see. */
export function classNameOf(payload: unknown): string {
  try {
    const prototype = (typeof payload === 'object' && Object.getPrototypeOf(payload)) as object;
    const owner = Object.getOwnPropertyDescriptor(prototype, 'constructor')?.value as () => void;
    const name = Object.getOwnPropertyDescriptor(owner, 'name')?.value as unknown;
    return typeof name === 'string' && name !== '' && name !== 'Object' ? name : 'Event';
  } catch {
    return 'Event';
  }
}
