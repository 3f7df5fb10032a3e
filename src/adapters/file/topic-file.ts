import { dirname } from 'node:path';
import { sleep } from '../../ground/builtins.ts';
import type { SendResult } from '../../publish/broker.ts';
import { toSendFailure } from './file-failure.ts';
import { close, fstat, ftruncate, mkdir, open, read, write } from './files.ts';

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

/** Opens the file anew each time, so that it may be moved or removed meanwhile. */
async function appendTo(path: string, lines: Buffer): Promise<SendResult> {
  let file: number;
  try {
    file = await openForAppend(path);
  } catch (error) {
    return { ok: false, failure: toSendFailure(error, path) };
  }
  let sizeBefore = 0;
  let written = 0;
  try {
    const bytes = (await endsInTornLine(file)) ? Buffer.concat([Buffer.from('\n'), lines]) : lines;
    sizeBefore = (await fstat(file)).size;
    // O_APPEND makes one write() one piece, beside those of other processes; a full disk may cut it short.
    while (written < bytes.length) written += (await write(file, bytes, written)).bytesWritten;
    return { ok: true };
  } catch (error) {
    const mayBeWritten = written > 0 && !(await takeBack(file, sizeBefore, written));
    return { ok: false, failure: toSendFailure(error, path, mayBeWritten) };
  } finally {
    await close(file).catch(() => {});
  }
}

async function openForAppend(path: string): Promise<number> {
  try {
    return await open(path, 'a+', 0o600);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    return open(path, 'a+', 0o600);
  }
}

/** A process that died while it wrote leaves half a line. One that is still writing gets a moment to end it. */
async function endsInTornLine(file: number): Promise<boolean> {
  if (!(await isTorn(file))) return false;
  await sleep(tornCheckMs);
  return isTorn(file);
}

async function isTorn(file: number): Promise<boolean> {
  const { size } = await fstat(file);
  if (size === 0) return false;
  const { buffer } = await read(file, Buffer.alloc(1), 0, 1, size - 1);
  return buffer[0] !== lineFeed;
}

/** Removes the part of a write that failed half-way, unless somebody else has written since. */
async function takeBack(file: number, sizeBefore: number, written: number): Promise<boolean> {
  try {
    if ((await fstat(file)).size !== sizeBefore + written) return false;
    await ftruncate(file, sizeBefore);
    return true;
  } catch {
    return false;
  }
}
