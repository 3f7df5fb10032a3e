import { createReadStream } from 'node:fs';

/** A line of a segment, without its line feed. `isWhole` is false for a last line that lacks it: a write that was cut off. */
export interface Line {
  readonly number: number;
  readonly text: string;
  readonly isWhole: boolean;
  /** Where it begins in the file, and its length without the line feed, in bytes. */
  readonly start: number;
  readonly bytes: number;
}

const lineFeed = 0x0a;

/** Lines of a file, numbered from 0. Unlike `readline`, it tells a torn last line from a whole one. */
export async function* readLines(path: string): AsyncGenerator<Line> {
  let rest: Buffer[] = [];
  let number = 0;
  let start = 0;
  const lineOf = (bytes: Buffer, isWhole: boolean): Line => {
    const line = { number: number++, text: bytes.toString(), isWhole, start, bytes: bytes.length };
    start += bytes.length + 1;
    return line;
  };
  for await (const chunk of createReadStream(path, { highWaterMark: 1024 * 1024 })) {
    let from = 0;
    for (let at = chunk.indexOf(lineFeed); at >= 0; at = chunk.indexOf(lineFeed, from)) {
      const line = Buffer.concat([...rest, chunk.subarray(from, at)]);
      rest = [];
      yield lineOf(line, true);
      from = at + 1;
    }
    if (from < chunk.length) rest.push(chunk.subarray(from));
  }
  if (rest.length > 0) yield lineOf(Buffer.concat(rest), false);
}
