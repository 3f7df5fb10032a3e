import { basename } from 'node:path';
import { nextTurn } from '../../../ground/builtins.ts';
import { orderOf } from '../../../ground/event-id.ts';
import type { IndexedLine, LineIndex } from './line-index.ts';
import { maxSegmentBytes, openStored, readAt } from './open-stored.ts';

/** The name of an event file, or a line of a segment. */
export type Entry = string | IndexedLine;

/** Sorted at once, and merged at once: a few milliseconds, and then the application has its turn. */
const atOnce = { sorted: 500, merged: 4_000 };

/**
 * Names of event files in the order of their ids, of a million within seconds. Those without an id come first. What is sorted are numbers,
 * as an object for each name would be work for the garbage collector, which lets nobody have a turn.
 */
export async function sortNames(names: readonly string[]): Promise<string[]> {
  const [high, low] = [new Uint32Array(names.length), new Uint32Array(names.length)];
  const before = (a: number, b: number): number =>
    (high[a] as number) - (high[b] as number) ||
    (low[a] as number) - (low[b] as number) ||
    byNumber(names[a] as string, names[b] as string);
  let order = new Uint32Array(names.length);
  for (let start = 0; start < names.length; start += atOnce.sorted) {
    const end = Math.min(start + atOnce.sorted, names.length);
    for (let at = start; at < end; at++) {
      const id = idOf(names[at] as string);
      high[at] = Number(id >> 32n);
      low[at] = Number(id & 0xffff_ffffn);
      order[at] = at;
    }
    order.subarray(start, end).sort(before);
    await nextTurn();
  }
  let merged = new Uint32Array(names.length);
  for (let length = atOnce.sorted; length < names.length; length *= 2) {
    for (let start = 0, one = 0, other = 0, at = 0; at < names.length; at++) {
      if (at === start + 2 * length || at === 0) [start, one, other] = [at, at, at + length];
      const oneEnds = Math.min(start + length, names.length);
      const otherEnds = Math.min(start + 2 * length, names.length);
      const isOne =
        other >= otherEnds || (one < oneEnds && before(order[one] as number, order[other] as number) <= 0);
      merged[at] = order[isOne ? one++ : other++] as number;
      if (at % atOnce.merged === 0) await nextTurn();
    }
    [order, merged] = [merged, order];
  }
  const sorted: string[] = [];
  for (const [index, at] of order.entries()) {
    sorted.push(names[at] as string);
    if (index % atOnce.merged === 0) await nextTurn();
  }
  return sorted;
}

function idOf(file: string): bigint {
  const stem = basename(file, '.json');
  // `<epoch_millis>.json` says nothing about the id in it.
  if (/^\d{13}$/.test(stem)) return 0n;
  // The second of one id has a number behind it.
  return orderOf(stem) || orderOf(stem.replace(/-\d+$/, ''));
}

/** Numbers as texts of any length. */
function byNumber(a: string, b: string): number {
  return a.length - b.length || (a < b ? -1 : 1);
}

/** Files are of no journal. @param files names in their order */
export function* inOrder(files: readonly string[], index: LineIndex): Generator<Entry> {
  const lines = index.sorted();
  let line = lines.next().value;
  for (const file of files) {
    const id = idOf(file);
    while (line !== undefined && line.generation === 0 && line.id < id) {
      yield line;
      line = lines.next().value;
    }
    yield file;
  }
  while (line !== undefined) {
    yield line;
    line = lines.next().value;
  }
}

export function bySegment(entries: readonly Entry[]): Map<number, IndexedLine[]> {
  const lines = new Map<number, IndexedLine[]>();
  for (const entry of entries) {
    if (typeof entry === 'string') continue;
    const known = lines.get(entry.segment);
    if (known === undefined) lines.set(entry.segment, [entry]);
    else known.push(entry);
  }
  return lines;
}

/** Lines that are read at once, for they stand one behind the other. */
function adjacent(lines: readonly IndexedLine[]): IndexedLine[][] {
  const groups: IndexedLine[][] = [];
  let end = -1;
  for (const line of lines) {
    if (line.start === end) groups.at(-1)?.push(line);
    else groups.push([line]);
    end = line.start + line.bytes + 1;
  }
  return groups;
}

/** The texts of lines of one file, or why it is not read. */
export async function readPlaces(path: string, lines: readonly IndexedLine[]): Promise<string[] | string> {
  const opened = await openStored(path, maxSegmentBytes);
  if (typeof opened === 'string') return opened;
  const { file } = opened;
  try {
    const texts: string[] = [];
    for (const some of adjacent(lines)) {
      const [{ start }, last] = [some[0] as IndexedLine, some.at(-1) as IndexedLine];
      const piece = await readAt(file, start, last.start + last.bytes - start);
      for (const line of some)
        texts.push(piece.toString('utf8', line.start - start, line.start - start + line.bytes));
    }
    return texts;
  } finally {
    await file.close();
  }
}
