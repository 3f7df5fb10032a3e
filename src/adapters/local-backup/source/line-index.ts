import { decodeRecord } from '../../../publish/stored-record.ts';

/** A line of a segment, found again without reading what is before it. */
export interface IndexedLine {
  /** Position of its segment in the list of the reader. */
  readonly segment: number;
  /** Of the line, from 0. */
  readonly number: number;
  /** In bytes. */
  readonly start: number;
  readonly bytes: number;
  /** Its place in time: `orderOf` its event id. */
  readonly id: bigint;
}

/** The lines of many segments in the order of their event ids: 28 bytes a line, so that a million of them fit. */
export interface LineIndex {
  /** `generation`: those of a lower one come first, whatever their ids. Default: 0. */
  add(line: IndexedLine, generation?: number): void;
  /** In order. Those whose ids are equal stay as they were added. */
  sorted(): Generator<OrderedLine, undefined>;
}

export interface OrderedLine extends IndexedLine {
  readonly generation: number;
}

/** Lines that were added in their order. Segments are, nearly: a few runs, merged as they are read, hold nobody up. */
interface Run {
  readonly generation: number;
  at: number;
  end: number;
}

export function createLineIndex(): LineIndex {
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
    add({ id, start, segment, number, bytes }, generation = 0) {
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
    *sorted() {
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

/** The smallest of many that grow one at a time. */
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
    /** The first one has grown, or is at its end. */
    sink(isKept) {
      const last = isKept ? undefined : heap.pop();
      if (last !== undefined && heap.length > 0) heap[0] = last;
      sinkFrom(0);
    },
  };
}

/** Of a line as svc writes it without parsing the rest of it; `undefined` where it is no event. */
export function eventIdIn(text: string): string | undefined {
  return /^\{"eventId":"([0-9a-f-]{1,36})"/.exec(text)?.[1] ?? decodeRecord(text, '')?.eventId;
}
