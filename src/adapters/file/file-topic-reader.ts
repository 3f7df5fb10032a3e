import { createReadStream } from 'node:fs';
import { type FileHandle, mkdir, open, rename } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { createRanges, type Ranges } from '../../ground/bounds.ts';
import { sleep } from '../../ground/builtins.ts';
import { SvcError } from '../../ground/errors.ts';
import { readBounded } from '../../ground/files.ts';
import type { TailRange, TopicReader, TopicRecord, TopicTail } from '../../publish/topic-reader.ts';
import { topicNameProblem } from './file-broker.ts';

/** Reads a topic once, and follows it. */
export const fileTopics = { reader: createFileTopicReader, tail: createFileTopicTail };

/** Limit for the ranges of handled lines. */
const maxDoneBytes = 16 * 1024 ** 2;

const valueName = ',"value":';

/** Reads a topic file. Line numbers are the offsets. Handled lines are stored beside it, in `<topic>.<group>.done.json`. */
function createFileTopicReader(options: {
  readonly directory: string;
  readonly topic: string;
  readonly group: string;
}): TopicReader {
  const directory = resolve(options.directory);
  const file = join(directory, `${options.topic}.ndjson`);
  const doneFile = join(directory, `${options.topic}.${options.group}.done.json`);
  let done: Ranges = createRanges();

  async function* lines(): AsyncGenerator<{ number: number; text: string }> {
    let number = 0;
    const input = createReadStream(file);
    try {
      for await (const text of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
        // Empty: two writers ended the same line.
        if (text !== '') yield { number, text };
        number++;
      }
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'ENOENT') throw failed(`there is no topic file "${file}"`);
      throw failed(`the topic file "${file}" cannot be read (${code})`);
    }
  }

  return {
    async open() {
      const problem = topicNameProblem(options.topic);
      if (problem !== undefined) throw failed(problem);
      try {
        done = createRanges(JSON.parse((await readBounded(doneFile, maxDoneBytes)).toString()));
      } catch (error) {
        const { code, message } = error as NodeJS.ErrnoException;
        if (code === 'ENOENT') done = createRanges();
        else throw failed(`the list of handled records, "${doneFile}", cannot be read (${code ?? message})`);
      }
    },
    async count() {
      let count = 0;
      for await (const { number } of lines()) if (!done.has(number)) count++;
      return count;
    },
    async *read(size) {
      let batch: TopicRecord[] = [];
      for await (const { number, text } of lines()) {
        if (done.has(number)) continue;
        batch.push(toRecord(text, number));
        if (batch.length < size) continue;
        yield batch;
        batch = [];
      }
      if (batch.length > 0) yield batch;
    },
    async done(records) {
      for (const { offset } of records) done.add(offset);
      await mkdir(directory, { recursive: true, mode: 0o700 });
      const temporary = `${doneFile}.${process.pid}.tmp`;
      const handle = await open(temporary, 'w', 0o600);
      try {
        await handle.writeFile(JSON.stringify(done));
        await handle.sync();
      } finally {
        await handle.close();
      }
      await rename(temporary, doneFile);
    },
    async close() {},
  };
}

/** The value keeps the bytes of the line. A line that is not JSON becomes a record without a value. */
function toRecord(text: string, offset: number): TopicRecord {
  try {
    const { key, headers, timestamp } = JSON.parse(text);
    // Quotes inside key and headers are escaped, so the first hit is the name.
    const value = Buffer.from(text.slice(text.indexOf(valueName) + valueName.length, -1));
    return { partition: 0, offset, key, headers, timestamp, value };
  } catch {
    return { partition: 0, offset, key: null, headers: {}, timestamp: 0, value: Buffer.alloc(0) };
  }
}

function failed(message: string): SvcError {
  return new SvcError('SVC_ADAPTERS_NOT_REACHABLE', message);
}

const everyMs = 250;
const pieceBytes = 64 * 1024;

/** Follows a topic file. Line numbers are the offsets. */
function createFileTopicTail({
  directory,
  topic,
  fromMs,
  untilMs,
}: TailRange & { readonly directory: string }): TopicTail {
  const file = join(resolve(directory), `${topic}.ndjson`);
  let handle: FileHandle | undefined;
  let position = 0;
  let line = 0;
  let rest = Buffer.alloc(0);
  let isRead = false;

  /** The lines written since the last call. The beginning of a line waits for its end. */
  async function next(): Promise<TopicRecord[]> {
    const piece = Buffer.alloc(pieceBytes);
    const { bytesRead = 0 } = (await handle?.read(piece, 0, pieceBytes, position)) ?? {};
    position += bytesRead;
    rest = Buffer.concat([rest, piece.subarray(0, bytesRead)]);
    const end = rest.lastIndexOf(10);
    const lines = rest
      .subarray(0, end + 1)
      .toString()
      .split('\n')
      .slice(0, -1);
    rest = rest.subarray(end + 1);
    return lines.flatMap((text) => {
      const offset = line++;
      return text === '' ? [] : toRecord(text, offset);
    });
  }

  const isWanted = ({ timestamp }: TopicRecord): boolean =>
    timestamp >= (fromMs ?? 0) && timestamp < (untilMs ?? Number.POSITIVE_INFINITY);

  return {
    async open() {
      const problem = topicNameProblem(topic);
      if (problem !== undefined) throw new SvcError('SVC_ADAPTERS_NOT_REACHABLE', problem);
      handle = await open(file).catch((error: NodeJS.ErrnoException) => {
        const why =
          error.code === 'ENOENT'
            ? `there is no topic file "${file}" yet: the first event creates it, if events go to files`
            : `"${file}" cannot be read (${error.code})`;
        throw new SvcError('SVC_ADAPTERS_NOT_REACHABLE', why);
      });
      if (fromMs !== undefined) return;
      const { size } = await handle.stat();
      while (position < size) await next();
    },
    async *read(signal) {
      while (!signal.aborted) {
        const before = position;
        const nowMs = Date.now();
        const records = await next();
        const wanted = records.filter(isWanted);
        if (wanted.length > 0) yield wanted;
        if (position > before) continue;
        if (untilMs !== undefined && nowMs >= untilMs) return;
        await sleep(everyMs, undefined, { signal }).catch(() => {});
      }
    },
    /** Reads all of it, because only a pass from the start finds the lines. */
    async *older(_, signal) {
      const { size = 0 } = (await handle?.stat()) ?? {};
      while (position < size && !signal.aborted) {
        const wanted = (await next()).filter(isWanted);
        if (wanted.length > 0) yield wanted;
      }
      isRead = true;
    },
    partitionsLeft: () => (isRead ? [] : [0]),
    close: async () => handle?.close(),
  };
}
