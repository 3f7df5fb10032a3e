import { basename } from 'node:path';
import { nextTurn } from '../../../ground/builtins.ts';
import { orderOf } from '../../../ground/event-id.ts';
import type { IndexedLine, LineIndex } from './line-index.ts';
import { maxSegmentBytes, openStored, readAt } from './open-stored.ts';

/** The name of an event file, or a line of a segment. */
export type Entry = string | IndexedLine;

/** Sorted or merged at once: a millisecond or two, and then the application has its turn. */
const sortedAtOnce = 2_000;

/** Names of event files in the order of their ids, of a million within seconds. Those without an id come first. */
export async function sortNames(names: readonly string[]): Promise<string[]> {
  let runs: Named[][] = [];
  for (let at = 0; at < names.length; at += sortedAtOnce) {
    const run = names.slice(at, at + sortedAtOnce).map((name) => ({ name, id: idOf(name) }));
    runs.push(run.sort(byId));
    await nextTurn();
  }
  while (runs.length > 1) {
    const longer: Named[][] = [];
    for (let at = 0; at < runs.length; at += 2)
      longer.push(await merged(runs[at] as Named[], runs[at + 1] ?? []));
    runs = longer;
  }
  const sorted: string[] = [];
  for (const [index, { name }] of (runs[0] ?? []).entries()) {
    sorted.push(name);
    if (index % (10 * sortedAtOnce) === 0) await nextTurn();
  }
  return sorted;
}

interface Named {
  readonly name: string;
  readonly id: bigint;
}

function byId(a: Named, b: Named): number {
  if (a.id !== b.id) return a.id < b.id ? -1 : 1;
  return byNumber(a.name, b.name);
}

async function merged(first: readonly Named[], second: readonly Named[]): Promise<Named[]> {
  const all: Named[] = [];
  let [one, other] = [0, 0];
  while (one < first.length && other < second.length) {
    const [left, right] = [first[one] as Named, second[other] as Named];
    const isLeft = byId(left, right) <= 0;
    all.push(isLeft ? left : right);
    if (isLeft) one++;
    else other++;
    if (all.length % sortedAtOnce === 0) await nextTurn();
  }
  return all.concat(first.slice(one), second.slice(other));
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
