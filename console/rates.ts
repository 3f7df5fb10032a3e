import type { ConsoleDocument } from '../src/manage/views.ts';

export type Seen = Pick<ConsoleDocument, 'atMs' | 'counts' | 'backup' | 'targets'>;

/** Events per second, over about the last ten seconds. */
export interface Rates {
  /** Calls of targets, also those that failed or made no event. */
  readonly calls: number;
  /** Calls whose events bypass the outbox. */
  readonly queued: number;
  readonly published: number;
  readonly deadLetters: number;
  readonly backup: number;
  readonly stored: number;
  readonly relayed: number;
  readonly drained: number;
}

/** Completed calls of targets: with an event, without one, or failed. */
export function callsOf({ targets }: Pick<ConsoleDocument, 'targets'>): number {
  return targets.reduce((sum, { calls }) => sum + calls, 0);
}

/** `undefined` before the second sample. */
export function ratesOf(seen: readonly Seen[]): Rates | undefined {
  const first = seen[0];
  const last = seen.at(-1);
  if (first === undefined || last === undefined || last.atMs <= first.atMs) return undefined;
  const seconds = (last.atMs - first.atMs) / 1_000;
  const rate = (value: (one: Seen) => number): number => Math.max(0, value(last) - value(first)) / seconds;
  return {
    calls: rate(callsOf),
    queued: rate(({ counts }) => counts.calls - counts.outbox - counts.rolled_back),
    published: rate(({ counts }) => counts.published),
    deadLetters: rate(({ counts }) => counts.dlq),
    backup: rate(({ counts }) => counts.backup),
    stored: rate(({ counts }) => counts.outbox),
    relayed: rate(({ counts }) => counts.relayed),
    drained: rate(({ backup }) => backup.drained),
  };
}
