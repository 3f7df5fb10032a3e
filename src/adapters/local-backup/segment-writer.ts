import type { Clock } from '../../ground/clock.ts';
import { type EndedSegments, newOwner } from './ended-segments.ts';
import { createSegment, type JournalOwner, type Segment, segmentTaken } from './segment.ts';
import type { Usage } from './usage.ts';

export interface SegmentWriterOptions {
  readonly usage: Usage;
  /** Where segments go that are full, or ended. */
  readonly ended: EndedSegments;
  readonly isJournal: boolean;
  readonly clock: Clock;
}

/** Appends to one segment after the other. */
export interface SegmentWriter {
  isWriting(): boolean;
  /** Whole lines, all of them or none, forced to the disk. */
  append(directory: string, text: string, lineCount: number): Promise<void>;
  /** Ends the segment that is written to. */
  end(): Promise<void>;
  /** Lets go of it: its path. */
  take(): string | undefined;
  /** Of a journal: its owner from now on. */
  ownerIn(directory: string): JournalOwner | undefined;
  close(): void;
}

const maxSegmentBytes = 16 * 1024 * 1024;
/** A journal that is not touched for a minute has no living owner. */
const beatMs = 10_000;

export function createSegmentWriter({ usage, ended, isJournal, clock }: SegmentWriterOptions): SegmentWriter {
  let segment: Segment | undefined;
  let owner: JournalOwner | undefined;
  let beat: NodeJS.Timeout | undefined;

  function ownerIn(directory: string): JournalOwner | undefined {
    if (!isJournal) return undefined;
    owner ??= newOwner(directory, clock.now());
    beat ??= setInterval(() => void ended.touch(segment?.path), beatMs).unref();
    return owner;
  }

  async function newSegment(directory: string): Promise<Segment> {
    const made = await createSegment(directory, clock.now(), ownerIn(directory));
    usage.add({ segments: 1 });
    return made;
  }

  async function end(): Promise<void> {
    const last = segment;
    segment = undefined;
    if (last === undefined) return;
    await last.end().catch(() => {});
    ended.add(last.path);
  }

  return {
    isWriting: () => segment !== undefined,

    async append(directory, text, lineCount) {
      if (segment !== undefined && segment.bytes() >= maxSegmentBytes) await end();
      try {
        segment ??= await newSegment(directory);
        await segment.append(text, lineCount);
      } catch (error) {
        await end();
        if ((error as NodeJS.ErrnoException).code !== segmentTaken) throw error;
        segment = await newSegment(directory);
        await segment.append(text, lineCount);
      }
      usage.add({ lines: lineCount });
      usage.learn(segment.path, segment.bytes(), segment.lines());
    },

    end,
    take() {
      const path = segment?.path;
      segment = undefined;
      return path;
    },
    ownerIn,
    close: () => clearInterval(beat),
  };
}
