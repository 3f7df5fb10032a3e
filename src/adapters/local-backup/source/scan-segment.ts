import { basename, join } from 'node:path';
import { orderOf } from '../../../ground/event-id.ts';
import { createRanges, type Ranges } from '../../../ground/ranges.ts';
import type { Unreadable } from '../../../publish/recovery-source.ts';
import { missing, unreadableBecause } from '../backup-failure.ts';
import { doneFile, generationOf, readDone } from '../segment.ts';
import { eventIdIn, type LineIndex } from './line-index.ts';
import { countLines, readLines } from './read-lines.ts';

/** What of a segment is known while it is read. */
export interface Progress {
  readonly done: Ranges;
  /** Lines that are no events. They keep the segment where it is. */
  unreadable: number;
  /** Known when the segment has been read to its end. */
  lineCount: number | undefined;
  isMoved: boolean;
  /** The greatest of the ids of its lines that are not done; known when it has been read to its end. */
  lastId: bigint | undefined;
  /** Done, and not on the disk: it could not be written. */
  readonly unnoted: Set<number>;
}

export function newProgress(done: Ranges, unnoted: Set<number> = new Set()): Progress {
  for (const line of unnoted) done.add(line);
  return { done, unnoted, unreadable: 0, lineCount: undefined, isMoved: false, lastId: undefined };
}

/** So many lines of a segment that are no events are named one by one. */
export const mostNamed = 100;
/** Of one segment: ten times what the end of a process can leave in one. */
export const mostLines = 10_000_000;

/** The journal of this process: ended segments, of which no event before `from` is wanted. */
export interface OwnSegments {
  readonly names: readonly string[];
  /** `orderOf` an event id. */
  readonly from: bigint;
}

/** Those in which something may be wanted. Nobody writes to them: what was found in them before holds. */
export function toRead({ names, from }: OwnSegments, known: ReadonlyMap<string, Progress>) {
  return { segments: names.filter((name) => from <= (known.get(name)?.lastId ?? from)), from };
}

export interface Scan {
  readonly progress: Progress;
  readonly unreadable: readonly Unreadable[];
}

/** Puts the lines of a segment that are not done, and not before `from`, into the index. What is wrong with it is named, and keeps it where it is. */
export async function scanSegment(
  directory: string,
  name: string,
  segment: number,
  index: LineIndex,
  unnoted: Set<number> | undefined,
  from = 0n,
): Promise<Scan> {
  const path = join(directory, name);
  const generation = generationOf(name);
  const unreadable: Unreadable[] = [];
  let unnamed = 0;
  let count = 0;
  let lastId = 0n;
  let done: Ranges | string;
  try {
    done = await readDone(path, () => countLines(path));
  } catch (error) {
    done = unreadableBecause(error);
  }
  if (typeof done === 'string') {
    // Sent twice rather than never: a note of the right kind takes its place with the first lines that are sent.
    const reason = `${done}: no line counts as done`;
    unreadable.push({ place: basename(doneFile(path)), reason });
  }
  const progress = newProgress(typeof done === 'string' ? createRanges() : done, unnoted);

  function refuse(place: string, reason: string): void {
    if (unreadable.length < mostNamed) unreadable.push({ place, reason });
    else unnamed++;
  }

  try {
    for await (const { number, text, isWhole, start, bytes } of readLines(path)) {
      if (number >= mostLines) throw missing(`it has more than ${mostLines} lines`);
      if (!isWhole) {
        // Written when the process died, so never counted as stored.
        refuse(`${name}:${number + 1}`, 'the line was cut off while it was written');
        continue;
      }
      count++;
      if (progress.done.has(number)) continue;
      const eventId = text === undefined ? undefined : eventIdIn(text);
      if (eventId !== undefined) {
        const id = orderOf(eventId);
        if (id > lastId) lastId = id;
        if (id >= from) index.add({ segment, number, start, bytes, id }, generation);
      } else {
        progress.unreadable++;
        const reason = text === undefined ? 'the line is longer than any event' : 'it holds no event';
        refuse(`${name}:${number + 1}`, reason);
      }
    }
    progress.lineCount = count;
    progress.lastId = lastId;
  } catch (error) {
    unreadable.push({ place: name, reason: unreadableBecause(error), mayPass: true });
  }
  if (unnamed > 0) unreadable.push({ place: name, reason: `${unnamed} more lines of it hold no event` });
  return { progress, unreadable };
}
