import { readdirSync, renameSync } from 'node:fs';
import { unlink, utimes } from 'node:fs/promises';
import { basename } from 'node:path';
import { ownStamp } from '../../ground/claims/process-stamp.ts';
import type { Clock } from '../../ground/clock.ts';
import {
  createSegment,
  finalName,
  finishSegment,
  type JournalOwner,
  nextGeneration,
  type Segment,
  segmentTaken,
} from './segment.ts';
import { gone, whyNot } from './source/still-there.ts';
import type { Usage } from './usage.ts';

export interface SegmentWriterOptions {
  readonly usage: Usage;
  /** One file an event is written, too: then all is in the order of the ids alone. */
  readonly hasFiles: boolean;
  readonly clock: Clock;
}

/** Appends to one segment after the other, and keeps those that it has ended until they are handed over. */
export interface SegmentWriter {
  /** Whole lines, all of them or none, forced to the disk. */
  append(directory: string, text: string, lineCount: number): Promise<void>;
  /** Ends the segment that is written to. */
  end(): Promise<void>;
  /** Names of the ended ones that are still there: a drain moves what it has sent. */
  names(): Promise<readonly string[]>;
  /** Hands the ended ones to the readers. */
  handOver(): Promise<void>;
  /** All of them, in the last turn of the process. What goes wrong leaves them to whoever comes next. */
  handOverSync(): void;
  /** Who writes from now on. Whatever is in the folder comes before it. */
  ownerIn(directory: string): JournalOwner;
  close(): void;
}

const maxSegmentBytes = 16 * 1024 * 1024;
/** A segment that is not touched for a minute has no living owner. */
const beatMs = 10_000;

export function createSegmentWriter({ usage, hasFiles, clock }: SegmentWriterOptions): SegmentWriter {
  let segment: Segment | undefined;
  let ended: string[] = [];
  let owner: JournalOwner | undefined;
  let beat: NodeJS.Timeout | undefined;

  function ownerIn(directory: string): JournalOwner {
    if (owner === undefined) {
      const generation = hasFiles ? 0 : nextGeneration(readdirSync(directory), clock.now());
      owner = { generation, stamp: ownStamp() };
    }
    beat ??= setInterval(touch, beatMs).unref();
    return owner;
  }

  /** Tells whoever cannot see this process that it lives. */
  function touch(): void {
    const now = new Date();
    const all = segment === undefined ? ended : [...ended, segment.path];
    for (const path of all) utimes(path, now, now).catch(() => {});
  }

  async function newSegment(directory: string): Promise<Segment> {
    const made = await createSegment(directory, ownerIn(directory));
    usage.add({ segments: 1 });
    return made;
  }

  async function end(): Promise<void> {
    const last = segment;
    segment = undefined;
    if (last === undefined) return;
    await last.end().catch(() => {});
    if (last.lines() > 0) return void ended.push(last.path);
    // Each event that a full disk refuses would leave an empty one.
    await unlink(last.path).catch(() => {});
    usage.add({ segments: -1 });
  }

  return {
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
    async names() {
      const reasons = await Promise.all(ended.map(whyNot));
      ended = ended.filter((_, index) => reasons[index] !== gone);
      return ended.map((path) => basename(path));
    },
    async handOver() {
      for (const path of ended.splice(0)) {
        await finishSegment(path).catch(async () => {
          // No one else takes it while this process lives: the next time.
          if ((await whyNot(path)) !== gone) ended.push(path);
        });
      }
    },
    handOverSync() {
      const paths = segment === undefined ? ended : [...ended, segment.path];
      segment = undefined;
      ended = [];
      for (const path of paths) {
        try {
          renameSync(path, finalName(path));
        } catch {
          // A reader takes over what a dead process has left.
        }
      }
    },
    ownerIn,
    close: () => clearInterval(beat),
  };
}
