import { readdirSync } from 'node:fs';
import { utimes } from 'node:fs/promises';
import { basename } from 'node:path';
import { ownStamp } from '../../ground/claims/process-stamp.ts';
import { finishSegment, type JournalOwner, nextGeneration } from './segment.ts';
import { gone, whyNot } from './source/still-there.ts';
import { startUnpacking, type Unpacking } from './source/unpack.ts';
import type { BackupFormat } from './store-files.ts';
import type { Usage } from './usage.ts';

/** Segments that this process has written and not handed over yet. */
export interface EndedSegments {
  add(path: string): void;
  /** The folder is gone, and they with it. */
  forget(): void;
  /** Some could become files. */
  isEmpty(): boolean;
  /** The next few events become files, as far as there is room. False: there is nothing to do. */
  unpackSome(directory: string): Promise<boolean>;
  /** All of them are somebody else's from now on. */
  take(): readonly string[];
  /** Names of those that are still there: a drain moves what it has sent. */
  names(): Promise<readonly string[]>;
  /** Hands all of them to the readers. */
  handOver(): Promise<void>;
  /** Tells whoever cannot see this process that it lives. */
  touch(current: string | undefined): Promise<void>;
}

export function createEndedSegments(format: BackupFormat, maxFiles: number, usage: Usage): EndedSegments {
  let paths: string[] = [];
  let unpacking: Unpacking | undefined;

  async function unpackSome(directory: string): Promise<boolean> {
    const path = paths[0];
    if (unpacking === undefined && path === undefined) return false;
    try {
      if (unpacking === undefined) {
        paths.shift();
        unpacking = await startUnpacking(directory, path as string, format);
      }
      const unpacked = await unpacking.step(maxFiles - usage.files());
      usage.add({ files: unpacked, lines: -unpacked });
      if (unpacking.isRemoved()) usage.add({ segments: -1 });
      if (unpacking.isFinished()) unpacking = undefined;
    } catch (error) {
      unpacking = undefined;
      throw error;
    }
    return true;
  }

  return {
    add: (path) => void paths.push(path),
    forget() {
      paths = [];
    },
    isEmpty: () => unpacking === undefined && paths.length === 0,
    unpackSome,
    take: () => paths.splice(0),
    async names() {
      const reasons = await Promise.all(paths.map(whyNot));
      paths = paths.filter((_, index) => reasons[index] !== gone);
      return paths.map((path) => basename(path));
    },
    async handOver() {
      await unpacking?.stop().catch(() => {});
      unpacking = undefined;
      for (const path of paths.splice(0)) await finishSegment(path).catch(() => {});
    },
    async touch(current) {
      const now = new Date();
      const all = current === undefined ? paths : [...paths, current];
      await Promise.all(all.map((path) => utimes(path, now, now).catch(() => {})));
    },
  };
}

/** A journal begins: whatever is in the folder comes before it. */
export function newOwner(directory: string, nowMs: number): JournalOwner {
  return { generation: nextGeneration(readdirSync(directory), nowMs), stamp: ownStamp() };
}
