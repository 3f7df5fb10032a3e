// actions/: what a request does to the process, and what keeps it from being done by the wrong one, twice or too often.

import type { Clock } from '../../ground/clock.ts';
import type { Controls } from '../controls.ts';
import type { JsonBody } from '../json-body.ts';
import { problem, type Reply } from '../reply.ts';
import { type Checks, checkFields } from './fields.ts';

export interface ActionContext {
  readonly controls: Controls;
  readonly jsonType: string;
  readonly hasBody: boolean;
  /** Who asks, for the log. */
  readonly by: string;
  /** The answer to whoever may only try this out; `undefined`: they may do it. */
  readonly mayNotAct: Reply | undefined;
  readonly limits: ActionLimits;
  readonly readBody: () => Promise<JsonBody>;
}

/** The fields of a request. Whoever may not act learns of nothing but a dry run. */
export async function readFields(
  { hasBody, readBody, mayNotAct }: ActionContext,
  checks: Checks,
): Promise<JsonBody> {
  const body: JsonBody = hasBody ? await readBody() : { fields: {} };
  const isDryRun = 'fields' in body && body.fields.dryRun === true;
  if (mayNotAct !== undefined && !isDryRun) return { refusal: mayNotAct };
  const refusal = 'fields' in body ? checkFields(body.fields, checks) : undefined;
  return refusal === undefined ? body : { refusal };
}

/** How often something may be begun. */
export interface ActionLimits {
  /** Counts, or says for how many seconds it is too often. */
  take(what: string): number | undefined;
  /** It was not begun. */
  giveBack(what: string): void;
}

export const mostInAMinute = 6;
const minuteMs = 60_000;

export function createActionLimits(clock: Pick<Clock, 'monotonic'>): ActionLimits {
  const begun = new Map<string, number[]>();
  return {
    take(what) {
      const nowMs = clock.monotonic();
      const lately = (begun.get(what) ?? []).filter((atMs) => nowMs - atMs < minuteMs);
      begun.set(what, lately);
      const [first] = lately;
      if (first !== undefined && lately.length >= mostInAMinute)
        return Math.ceil((first + minuteMs - nowMs) / 1_000);
      lately.push(nowMs);
      return undefined;
    },
    giveBack: (what) => void begun.get(what)?.pop(),
  };
}

export function tooOften(seconds: number): Reply {
  const detail = `This was begun ${mostInAMinute} times within a minute: try again in ${seconds} s.`;
  return problem(429, detail, { 'retry-after': String(seconds) });
}

const askAgainSeconds = 5;

export function isBusy(detail: string): Reply {
  return problem(409, detail, { 'retry-after': String(askAgainSeconds) });
}
