import type { Clock } from '../../ground/clock.ts';
import type { SendFailure } from '../broker.ts';
import { faultOf } from '../fault.ts';

/** Topics that refuse all their events, because they are not there or this user has no right to them. */
export interface TopicRefusals {
  /** The cluster has refused a send for its topic. `isFinal`: it is not tried again. True: it is the first one. */
  refused(topic: string, failure: SendFailure, isFinal: boolean): boolean;
  /** The topic took events. True: it refused them before. */
  taken(topic: string): boolean;
  /** The last refusal, where nothing was taken since. `isFinal`: a send has used up its retries, and others need none. */
  of(topic: string): Refusal | undefined;
  /** `reason`, with the refusal of the topic, for an event that was never sent itself. */
  explain(topic: string, reason: SendFailure): SendFailure;
  /** One line about those that were refused lately; for the health endpoint. */
  state(): string | undefined;
}

interface Refusal {
  readonly failure: SendFailure;
  readonly isFinal: boolean;
  readonly atMs: number;
}

/** A topic that nobody sends to any more is no news after this time. */
const newsMs = 300_000;
/** Topics that are remembered; their names can come from application data. */
const maxTopics = 1_000;

export function createTopicRefusals(clock: Clock): TopicRefusals {
  const refusals = new Map<string, Refusal>();
  return {
    refused(topic, failure, isFinal) {
      const known = refusals.get(topic);
      refusals.delete(topic);
      if (refusals.size >= maxTopics) refusals.delete(refusals.keys().next().value as string);
      const atMs = clock.monotonic();
      refusals.set(topic, { failure, isFinal: isFinal || known?.isFinal === true, atMs });
      return known === undefined;
    },
    taken: (topic) => refusals.size > 0 && refusals.delete(topic),
    of: (topic) => refusals.get(topic),
    explain(topic, reason) {
      const known = refusals.get(topic)?.failure;
      if (known === undefined || faultOf(reason) === 'topic') return reason;
      return { ...reason, cause: known.cause, message: `${reason.message}; last: ${known.message}` };
    },
    state() {
      const sinceMs = clock.monotonic() - newsMs;
      const lately = [...refusals.values()].filter(({ atMs }) => atMs >= sinceMs);
      const last = lately.at(-1);
      if (last === undefined) return undefined;
      const more = lately.length === 1 ? '' : `; so are ${lately.length - 1} other topics`;
      return `events of a topic are refused: ${last.failure.message}${more}`;
    },
  };
}
