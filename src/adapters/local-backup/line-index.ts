import { basename } from 'node:path';
import { nextTurn } from '../../ground/builtins.ts';
import { orderOf } from '../../ground/event-fields.ts';

/** A line of a segment, located so that it can be read alone. */
export interface IndexedLine {
  /** Position of its segment in the list of the reader. */
  readonly segment: number;
  /** Number of the line, from 0. */
  readonly number: number;
  /** In bytes. */
  readonly start: number;
  readonly bytes: number;
  /** `orderOf` its event id. */
  readonly id: bigint;
}

interface OrderedLine extends IndexedLine {
  readonly generation: number;
}

/** Lines that were added in their order. Segments are nearly sorted, so a merge of a few runs blocks no other work. */
interface Run {
  readonly generation: number;
  at: number;
  end: number;
}

export type LineIndex = ReturnType<typeof createLineIndex>;

/** The lines of many segments in the order of their event ids, at 28 bytes a line, so that a million fit in memory. */
export function createLineIndex() {
  let ids = new BigUint64Array(1_024);
  let starts = new Float64Array(1_024);
  // Segment, number, bytes.
  let rest = new Uint32Array(3 * 1_024);
  let count = 0;
  const runs: Run[] = [];

  function comesFirst(a: Run, b: Run): boolean {
    if (a.generation !== b.generation) return a.generation < b.generation;
    const [first, second] = [ids[a.at] as bigint, ids[b.at] as bigint];
    return first === second ? a.at < b.at : first < second;
  }

  function grow(): void {
    const [oldIds, oldStarts, oldRest] = [ids, starts, rest];
    ids = new BigUint64Array(count * 2);
    starts = new Float64Array(count * 2);
    rest = new Uint32Array(count * 6);
    ids.set(oldIds);
    starts.set(oldStarts);
    rest.set(oldRest);
  }

  return {
    /** Lower generations come first, whatever their ids. */
    add({ id, start, segment, number, bytes }: IndexedLine, generation = 0): void {
      if (count === ids.length) grow();
      const run = runs.at(-1);
      const goesOn = run !== undefined && run.generation === generation && (ids[count - 1] as bigint) <= id;
      if (goesOn) run.end++;
      else runs.push({ generation, at: count, end: count + 1 });
      ids[count] = id;
      starts[count] = start;
      rest.set([segment, number, bytes], 3 * count);
      count++;
    },
    /** In order. Lines with equal ids keep the order of their `add`. */
    *sorted(): Generator<OrderedLine, undefined> {
      const heap = createHeap(runs, comesFirst);
      for (let run = heap.first(); run !== undefined; run = heap.first()) {
        const at = run.at++;
        const [segment = 0, number = 0, bytes = 0] = rest.subarray(3 * at, 3 * at + 3);
        const { generation } = run;
        heap.sink(run.at < run.end);
        yield { id: ids[at] as bigint, start: starts[at] as number, segment, number, bytes, generation };
      }
      return undefined;
    },
  };
}

/** The smallest of many items that grow one at a time. */
function createHeap<T>(
  items: readonly T[],
  comesFirst: (a: T, b: T) => boolean,
): { first(): T | undefined; sink(isKept: boolean): void } {
  const heap = [...items];

  function sinkFrom(at: number): void {
    for (let parent = at; ; ) {
      const left = 2 * parent + 1;
      let child = left;
      if (left + 1 < heap.length && comesFirst(heap[left + 1] as T, heap[left] as T)) child = left + 1;
      if (child >= heap.length || !comesFirst(heap[child] as T, heap[parent] as T)) return;
      [heap[parent], heap[child]] = [heap[child] as T, heap[parent] as T];
      parent = child;
    }
  }

  for (let at = (heap.length >> 1) - 1; at >= 0; at--) sinkFrom(at);
  return {
    first: () => heap[0],
    /** The first item has grown, or is at its end. */
    sink(isKept) {
      const last = isKept ? undefined : heap.pop();
      if (last !== undefined && heap.length > 0) heap[0] = last;
      sinkFrom(0);
    },
  };
}

export type Entry = string | IndexedLine;

/** Entries sorted or merged in one turn of the event loop, a few milliseconds. */
const atOnce = { sorted: 500, merged: 4_000 };

/**
 * Names of event files in the order of their ids, a million within seconds. Names without an id come first. It sorts numbers,
 * because an object for each name would cause long garbage collections.
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
  // Later files of one id have a number after it.
  return orderOf(stem) || orderOf(stem.replace(/-\d+$/, ''));
}

/** Numbers as texts of any length. */
function byNumber(a: string, b: string): number {
  return a.length - b.length || (a < b ? -1 : 1);
}

/** Event files belong to no journal. @param files names in their order */
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
