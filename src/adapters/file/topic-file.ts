import { promises } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';
import { sleep } from '../../ground/builtins.ts';
import type { SendResult } from '../../publish/broker.ts';
import { toSendFailure } from './file-failure.ts';

export interface TopicFile {
  /** Appends whole lines. Appends under way at once are written together, in the order of their calls. */
  append(lines: Buffer): Promise<SendResult>;
}

interface Append {
  readonly lines: Buffer;
  readonly settle: (result: SendResult) => void;
}

const lineFeed = 0x0a;
const tornCheckMs = 10;
/** One write() of more than this would hold up whatever else waits for the disk. */
const maxWriteBytes = 4 * 1024 * 1024;

export function createTopicFile(path: string): TopicFile {
  let pending: Append[] = [];
  let writing = false;

  async function writePending(): Promise<void> {
    while (pending.length > 0) {
      const batch = takeBatch();
      const result = await appendTo(path, Buffer.concat(batch.map(({ lines }) => lines)));
      for (const { settle } of batch) settle(result);
    }
    writing = false;
  }

  function takeBatch(): Append[] {
    let bytes = 0;
    let count = 0;
    while (count < pending.length && (count === 0 || bytes < maxWriteBytes))
      bytes += (pending[count++] as Append).lines.length;
    const batch = pending.slice(0, count);
    pending = pending.slice(count);
    return batch;
  }

  return {
    append: (lines) =>
      new Promise((settle) => {
        pending.push({ lines, settle });
        if (writing) return;
        writing = true;
        // The appends of this turn of the event loop go into one write.
        setImmediate(() => void writePending());
      }),
  };
}

/**
 * Opens the file anew each time, so that it may be moved or removed meanwhile. Through a handle: where an agent has wrapped `fs.read`
 * and `fs.write`, `promisify` no longer knows what they answer with.
 */
async function appendTo(path: string, lines: Buffer): Promise<SendResult> {
  let file: FileHandle;
  try {
    file = await openForAppend(path);
  } catch (error) {
    return { ok: false, failure: toSendFailure(error, path) };
  }
  let sizeBefore = 0;
  let written = 0;
  try {
    const bytes = (await endsInTornLine(file)) ? Buffer.concat([Buffer.from('\n'), lines]) : lines;
    sizeBefore = (await file.stat()).size;
    // O_APPEND makes one write() one piece, beside those of other processes; a full disk may cut it short.
    while (written < bytes.length) written += (await file.write(bytes, written)).bytesWritten;
    return { ok: true };
  } catch (error) {
    const mayBeWritten = written > 0 && !(await takeBack(file, sizeBefore, written));
    return { ok: false, failure: toSendFailure(error, path, mayBeWritten) };
  } finally {
    await file.close().catch(() => {});
  }
}

async function openForAppend(path: string): Promise<FileHandle> {
  try {
    return await promises.open(path, 'a+', 0o600);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    await promises.mkdir(dirname(path), { recursive: true, mode: 0o700 });
    return promises.open(path, 'a+', 0o600);
  }
}

/** A process that died while it wrote leaves half a line. One that is still writing gets a moment to end it. */
async function endsInTornLine(file: FileHandle): Promise<boolean> {
  if (!(await isTorn(file))) return false;
  await sleep(tornCheckMs);
  return isTorn(file);
}

async function isTorn(file: FileHandle): Promise<boolean> {
  const { size } = await file.stat();
  if (size === 0) return false;
  const { buffer } = await file.read(Buffer.alloc(1), 0, 1, size - 1);
  return buffer[0] !== lineFeed;
}

/** Removes the part of a write that failed half-way, unless somebody else has written since. */
async function takeBack(file: FileHandle, sizeBefore: number, written: number): Promise<boolean> {
  try {
    if ((await file.stat()).size !== sizeBefore + written) return false;
    await file.truncate(sizeBefore);
    return true;
  } catch {
    return false;
  }
}
