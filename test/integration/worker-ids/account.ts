import { readFileSync } from 'node:fs';
import { snowflakeEpochMs } from '../../../src/ground/event-fields.ts';

/** What the logs of all processes say of their ids. */
export interface Account {
  readonly idCount: number;
  /** Ids that were made twice, both times with a leased worker id: that of a host may be another one's by chance (docs/event-ids.md). */
  readonly equalIds: readonly string[];
  /** Of two processes that had one leased worker id, the shortest time from the last id of the one to the first of the other. */
  readonly shortestHandOverMs: number;
  readonly handOvers: number;
  /** Ids that are not greater than the one before of the same process. */
  readonly fallen: readonly string[];
}

interface Entry {
  readonly atMs: number;
  readonly process: number;
}

export function accountOf(logs: readonly string[]): Account {
  const seen = new Map<string, string>();
  let idCount = 0;
  const equalIds: string[] = [];
  const fallen: string[] = [];
  const uses = new Map<number, Entry[]>();
  for (const [process, log] of logs.entries()) {
    let last = 0n;
    for (const { id, source } of readLog(log)) {
      idCount++;
      if (source === 'kafka' && seen.get(id) === source) equalIds.push(id);
      seen.set(id, source);
      const bits = BigInt(id);
      if (bits <= last) fallen.push(id);
      last = bits;
      // Of an id that was made in the millisecond of a change it is not known which it was.
      if (source === 'kafka') addUse(uses, bits, process);
    }
  }
  let shortestHandOverMs = Number.POSITIVE_INFINITY;
  let handOvers = 0;
  for (const entries of uses.values()) {
    entries.sort((a, b) => a.atMs - b.atMs);
    for (const [index, entry] of entries.entries()) {
      const before = entries[index - 1];
      if (before === undefined || before.process === entry.process) continue;
      handOvers++;
      shortestHandOverMs = Math.min(shortestHandOverMs, entry.atMs - before.atMs);
    }
  }
  return { idCount, equalIds, shortestHandOverMs, handOvers, fallen };
}

export function readLog(log: string): { readonly id: string; readonly source: string }[] {
  const whole = readFileSync(log, 'utf8');
  // A process that is killed may leave half a line.
  const lines = whole.slice(0, whole.lastIndexOf('\n')).split('\n');
  return lines.map((line) => {
    const [id = '', source = ''] = line.split(' ');
    return { id, source };
  });
}

export function workerOf(id: string): number {
  return Number((BigInt(id) >> 12n) & 1023n);
}

export function timeOf(id: string): number {
  return Number(BigInt(id) >> 22n) + snowflakeEpochMs;
}

/** One entry for each millisecond: millions of ids must not need as much memory. */
function addUse(uses: Map<number, Entry[]>, bits: bigint, process: number): void {
  const workerId = Number((bits >> 12n) & 1023n);
  const atMs = Number(bits >> 22n);
  const entries = uses.get(workerId) ?? [];
  uses.set(workerId, entries);
  const last = entries.at(-1);
  if (last?.atMs !== atMs || last.process !== process) entries.push({ atMs, process });
}
