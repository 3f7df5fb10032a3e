import { type FileHandle, open } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { sleep } from '../../ground/builtins.ts';
import { SvcError } from '../../ground/errors.ts';
import type { TopicRecord } from '../../publish/topic-reader.ts';
import type { TailRange, TopicTail } from '../../publish/topic-tail.ts';
import { toRecord } from './file-topic-reader.ts';
import { topicNameProblem } from './topic-name.ts';

export interface FileTopicTailOptions extends TailRange {
  /** Where the topics lie. */
  readonly directory: string;
}

const everyMs = 250;
const pieceBytes = 64 * 1024;

/** Follows a topic file; line numbers are the offsets. */
export function createFileTopicTail({ directory, topic, fromMs, untilMs }: FileTopicTailOptions): TopicTail {
  const file = join(resolve(directory), `${topic}.ndjson`);
  let handle: FileHandle | undefined;
  let position = 0;
  let line = 0;
  let rest = Buffer.alloc(0);
  let isRead = false;

  /** What has been written since; the beginning of a line waits for its end. */
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
            ? `there is no topic file "${file}" yet: the first event makes it, where events go to files`
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
    /** All of it: where a line begins shows on the way there alone. */
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
