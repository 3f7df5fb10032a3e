// testing/: what `svc/testing` says of events: which of them match, what an assertion shows, and those of the outbox.

import { AssertionError } from 'node:assert';
import { SvcError } from '../ground/errors.ts';
import { optionsProblem } from '../ground/named-values.ts';

export interface EventMatch {
  readonly topic?: string;
  readonly eventType?: string;
  /** What the payload holds among other things; arrays in it are compared as a whole. */
  readonly payload?: unknown;
}

export const matchNames: readonly (keyof EventMatch)[] = ['topic', 'eventType', 'payload'];
/** Of a wait, beside what it waits for. */
export const waitNames = ['count', 'timeoutMs'] as const;

/**
 * A mistyped name would match every event.
 *
 * @throws SvcError `SVC_TESTING_MATCH`
 */
export function checkMatch(of: string, given: unknown, names: readonly string[] = matchNames): void {
  const problem = optionsProblem(given, names);
  if (problem !== undefined) throw new SvcError('SVC_TESTING_MATCH', `${of}(): ${problem}`);
}

/** What any event can be compared by, published or stored. */
interface Comparable {
  readonly eventType: string;
  readonly payload: unknown;
}

/** Of an event in the list of a failed assertion. */
export interface Listed {
  readonly topic: string;
  readonly event: Comparable & { readonly eventId: string };
  /** Where it stands, and further differences: names, never values of a payload. */
  readonly remark?: string;
  readonly differs?: readonly string[];
}

export function matches({ eventType, payload }: EventMatch, event: Comparable): boolean {
  if (eventType !== undefined && event.eventType !== eventType) return false;
  return differences(asJson(payload), event.payload, 'payload').length === 0;
}

export function describeMatch(match: EventMatch): string {
  const payload = match.payload === undefined ? '' : ' with the expected payload';
  return `${match.eventType ?? 'an event'}${payload}${inTopic(match)}`;
}

export function inTopic({ topic }: EventMatch): string {
  return topic === undefined ? '' : ` in topic "${topic}"`;
}

/** Names topics, types, ids and the paths that differ: never a value of a payload. */
export function failure(
  problem: string,
  match: EventMatch,
  done: 'published' | 'stored',
  found: readonly Listed[],
): AssertionError {
  const expected = asJson(match.payload);
  const lines = found.map(({ topic, event, remark = '', differs = [] }) => {
    const isMeant = event.eventType === match.eventType;
    const paths = isMeant ? [...differs, ...differences(expected, event.payload, 'payload')] : [];
    const where = paths.length === 0 ? '' : ` (differs at ${paths.join(', ')})`;
    return `  ${topic}: ${event.eventType} ${event.eventId}${remark}${where}`;
  });
  const title = `${done[0]?.toUpperCase()}${done.slice(1)}`;
  const list = lines.length === 0 ? `Nothing was ${done}.` : `${title}:\n${lines.join('\n')}`;
  return new AssertionError({ message: `${problem}. ${list}`, stackStartFn: failure });
}

/** As the payload looks after its way through JSON: dates are texts there. */
function asJson(value: unknown): unknown {
  return value === undefined ? undefined : JSON.parse(JSON.stringify(value));
}

/** Paths at which `actual` lacks what is `expected`. `undefined` expects nothing. */
function differences(expected: unknown, actual: unknown, path: string): string[] {
  if (expected === undefined || Object.is(expected, actual)) return [];
  if (!isObject(expected) || !isObject(actual) || Array.isArray(expected) !== Array.isArray(actual))
    return [path];
  if (Array.isArray(expected) && expected.length !== (actual as unknown as unknown[]).length)
    return [`${path}.length`];
  return Object.keys(expected).flatMap((key) => differences(expected[key], actual[key], `${path}.${key}`));
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
