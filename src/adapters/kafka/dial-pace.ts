import type { Clock } from '../../ground/clock.ts';
import { askAgainMs } from '../../publish/broker.ts';

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
