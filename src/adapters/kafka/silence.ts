import type { Clock } from '../../ground/clock.ts';
import { askAgainMs } from '../../publish/broker.ts';

/** A broker that is well answers in milliseconds. */
const silentMs = 2_000;
/** Over the slowest network. */
const longestSilentMs = 10_000;

/**
 * When the whole cluster was last silent: a question that any of its brokers could answer had no answer, nor had any send, as over a
 * network that is only slow. Connections from
 * before that may be dead without a word, as where a machine or a network was lost, and whoever waits on one of them waits
 * for ever, long after the cluster is back.
 */
export interface Silence {
  /** Passes on what the question comes to. `over`: it was answered over another connection. */
  notice<T>(question: Promise<T>, over?: AbortSignal): Promise<T>;
  /** On the monotonic clock. */
  lastAtMs(): number;
}

/**
 * @param onSilent called each time, and again every 2 s as long as there is no answer
 * @param heard what the last send was answered: nothing is heard for 2 s, and twice as long as that took, 10 s at most
 */
export function createSilence(clock: Clock, onSilent: () => void, heard: () => Answer | undefined): Silence {
  let lastAtMs = Number.NEGATIVE_INFINITY;
  return {
    async notice(question, over) {
      let timer: NodeJS.Timeout | undefined;
      let hasLooked = false;
      const look = (): void => {
        if (hasLooked && over?.aborted) return;
        hasLooked = true;
        const nowMs = clock.monotonic();
        const { atMs, tookMs } = heard() ?? { atMs: Number.NEGATIVE_INFINITY, tookMs: 0 };
        const leftMs = atMs + Math.min(Math.max(silentMs, 2 * tookMs), longestSilentMs) - nowMs;
        if (leftMs <= 0) {
          lastAtMs = nowMs;
          onSilent();
        }
        lookAfter(leftMs > 0 ? leftMs : silentMs);
      };
      const lookAfter = (delayMs: number): void => {
        timer = setTimeout(look, delayMs).unref();
      };
      lookAfter(silentMs);
      try {
        return await question;
      } finally {
        clearTimeout(timer);
      }
    },
    lastAtMs: () => lastAtMs,
  };
}

/** Beside the first try. */
const mostAgain = 2;

/**
 * What is asked over a connection that is dead without a word has no answer for as long as its time-outs are, however soon the
 * cluster is back. Here it is asked once more every 750 ms, and the first answer counts. A further try has a second and a half.
 * Rejects as the first one does, up to 750 ms later where others may be answered still.
 *
 * @param ask `signal` is aborted when nobody waits for this try any more; `isAgain`: others are without an answer
 * @param isAnswer whether an error is what the cluster says: then no other try would say anything else
 */
export function firstAnswer<T>(
  ask: (signal: AbortSignal, isAgain: boolean) => Promise<T>,
  isAnswer: (error: unknown) => boolean,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const underWay = new Set<AbortController>();
    const again: AbortController[] = [];
    let firstFailure: { readonly error: unknown } | undefined;

    function end(): void {
      clearInterval(timer);
      for (const each of underWay) each.abort();
    }

    function fail(error: unknown): void {
      end();
      reject(error);
    }

    function begin(isAgain: boolean): AbortController {
      const one = new AbortController();
      underWay.add(one);
      ask(one.signal, isAgain).then(
        (answer) => {
          end();
          resolve(answer);
        },
        (error: unknown) => {
          if (!isAgain) firstFailure = { error };
          underWay.delete(one);
          if (isAnswer(error)) fail(error);
          else if (underWay.size === 0) fail(firstFailure?.error);
        },
      );
      return one;
    }

    const timer = setInterval(() => {
      if (firstFailure !== undefined) return fail(firstFailure.error);
      again.push(begin(true));
      if (again.length <= mostAgain) return;
      const oldest = again.shift() as AbortController;
      oldest.abort();
      underWay.delete(oldest);
    }, askAgainMs).unref();
    begin(false);
  });
}

/** Whoever asks while the question is under way gets its answer: many of them would stand in one another's way. */
export function oneAtATime<T>(): (ask: () => Promise<T>) => Promise<T> {
  let underWay: Promise<T> | undefined;
  return (ask) => {
    underWay ??= ask().finally(() => {
      underWay = undefined;
    });
    return underWay;
  };
}

/** As Kafka's own clients do it: the mean is over this time and what has passed of the next. */
const windowMs = 30_000;

export interface Answer {
  /** When it came, on the monotonic clock. */
  readonly atMs: number;
  readonly tookMs: number;
}

/** How long the broker takes to answer. */
export interface AnswerTimes {
  record(ms: number): void;
  last(): Answer | undefined;
  /** Milliseconds, over the last 30 to 60 seconds; `null`: nothing was answered. */
  mean(): number | null;
}

interface Window {
  count: number;
  sumMs: number;
}

export function createAnswerTimes(clock: Clock): AnswerTimes {
  const empty = (): Window => ({ count: 0, sumMs: 0 });
  let startMs = clock.monotonic();
  let before = empty();
  let now = empty();
  let last: Answer | undefined;

  function turn(): void {
    const turns = Math.floor((clock.monotonic() - startMs) / windowMs);
    if (turns === 0) return;
    startMs += turns * windowMs;
    before = turns === 1 ? now : empty();
    now = empty();
  }

  return {
    record(ms) {
      turn();
      last = { atMs: clock.monotonic(), tookMs: ms };
      now.count++;
      now.sumMs += ms;
    },
    last: () => last,
    mean() {
      turn();
      const count = before.count + now.count;
      return count === 0 ? null : (before.sumMs + now.sumMs) / count;
    },
  };
}

/** Tries to connect to brokers that have refused it, in the time from one question to the next. */
const maxTries = 2;

/** Of what is not there, whoever asks for it; what a broker itself refuses is not among them. */
const away = new Set(['ECONNREFUSED', 'EHOSTUNREACH', 'ENETUNREACH', 'EHOSTDOWN', 'ENOTFOUND', 'EAI_AGAIN']);

/**
 * How often brokers that are away are tried. A client goes through all it knows, some of them twice, with each send and each
 * question: a list of brokers would be tried many times a second by each process of a service, at the very moment when they
 * start. Here the two that were tried longest ago have their turn, and for the others the last refusal stands. As soon as one
 * broker is connected to, all are tried again at once.
 */
export interface DialPace<Refusal> {
  /** What the broker said last, where it is not its turn yet; `undefined`: it is to be tried. */
  refusal(address: string): Refusal | undefined;
  /** `code`: of Node. */
  failed(address: string, code: string | undefined, refusal: Refusal): void;
  connected(): void;
}

export function createDialPace<Refusal>(clock: Clock): DialPace<Refusal> {
  /** In the order of their last try. */
  const refusals = new Map<string, Refusal>();
  let triedAtMs: number[] = [];

  return {
    refusal(address) {
      const refusal = refusals.get(address);
      if (refusal === undefined) return undefined;
      const nowMs = clock.monotonic();
      triedAtMs = triedAtMs.filter((atMs) => nowMs - atMs < askAgainMs);
      const turns = Math.max(0, maxTries - triedAtMs.length);
      const isNext = [...refusals.keys()].slice(0, turns).includes(address);
      if (!isNext) return refusal;
      triedAtMs.push(nowMs);
      // Its turn is over, even where nothing is heard of this try.
      refusals.delete(address);
      refusals.set(address, refusal);
      return undefined;
    },
    failed(address, code, refusal) {
      if (code === undefined || !away.has(code)) return;
      const isNew = !refusals.has(address);
      refusals.delete(address);
      refusals.set(address, refusal);
      if (isNew) triedAtMs.push(clock.monotonic());
    },
    connected() {
      refusals.clear();
      triedAtMs = [];
    },
  };
}
