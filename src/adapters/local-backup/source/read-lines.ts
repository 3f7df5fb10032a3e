import { maxEventBytes, readPieces } from './open-stored.ts';

/** A line of a segment, without its line feed. `isWhole` is false for a last line that lacks it: a write that was cut off. */
export interface Line {
  readonly number: number;
  /** `undefined` where it is longer than any event: it is passed over, and never held in memory. */
  readonly text: string | undefined;
  readonly isWhole: boolean;
  /** Where it begins in the file, and its length without the line feed, in bytes. */
  readonly start: number;
  readonly bytes: number;
}

const lineFeed = 0x0a;

/**
 * Lines of a file, numbered from 0. Unlike `readline`, it tells a torn last line from a whole one.
 *
 * @throws SvcError with one line where the file is none to read
 */
export async function* readLines(path: string, maxBytes = maxEventBytes): AsyncGenerator<Line> {
  let rest: Buffer[] = [];
  let bytes = 0;
  let number = 0;
  let start = 0;
  const add = (piece: Buffer): void => {
    bytes += piece.length;
    if (bytes > maxBytes) rest = [];
    else rest.push(piece);
  };
  const end = (isWhole: boolean): Line => {
    const text = bytes > maxBytes ? undefined : Buffer.concat(rest).toString();
    const line = { number: number++, text, isWhole, start, bytes };
    start += bytes + 1;
    bytes = 0;
    rest = [];
    return line;
  };
  for await (const piece of readPieces(path)) {
    let from = 0;
    for (let at = piece.indexOf(lineFeed); at >= 0; at = piece.indexOf(lineFeed, from)) {
      add(piece.subarray(from, at));
      yield end(true);
      from = at + 1;
    }
    if (from < piece.length) add(piece.subarray(from));
  }
  if (bytes > 0) yield end(false);
}

export async function countLines(path: string, from = 0, to?: number): Promise<number> {
  let lines = 0;
  for await (const piece of readPieces(path, from, to)) {
    for (let at = piece.indexOf(lineFeed); at >= 0; at = piece.indexOf(lineFeed, at + 1)) lines++;
  }
  return lines;
}
