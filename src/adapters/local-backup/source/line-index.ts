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
  add(line: IndexedLine): void;
  /** In order. Those whose ids are equal stay as they were added. */
  sorted(): Generator<IndexedLine, undefined>;
}

export function createLineIndex(): LineIndex {
  let ids = new BigUint64Array(1_024);
  let starts = new Float64Array(1_024);
  // Segment, number, bytes.
  let rest = new Uint32Array(3 * 1_024);
  let count = 0;

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
    add({ id, start, segment, number, bytes }) {
      if (count === ids.length) grow();
      ids[count] = id;
      starts[count] = start;
      rest.set([segment, number, bytes], 3 * count);
      count++;
    },
    *sorted() {
      const order = new Uint32Array(count).map((_, index) => index);
      order.sort((a, b) => {
        const [first, second] = [ids[a] as bigint, ids[b] as bigint];
        return first === second ? a - b : first < second ? -1 : 1;
      });
      for (const at of order) {
        const [segment = 0, number = 0, bytes = 0] = rest.subarray(3 * at, 3 * at + 3);
        yield { id: ids[at] as bigint, start: starts[at] as number, segment, number, bytes };
      }
      return undefined;
    },
  };
}

/** Of a line as svc writes it without parsing the rest of it; `undefined` where it is no event. */
export function eventIdIn(text: string): string | undefined {
  return /^\{"eventId":"([0-9a-f-]{1,36})"/.exec(text)?.[1] ?? decodeRecord(text, '')?.eventId;
}
