// file/: a broker without Kafka: a file for each topic, a line for each record.

import fs, { constants, type Stats } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { sleep } from '../../ground/builtins.ts';
import { within } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import { topicNameForm, topicNamePattern } from '../../ground/event-fields.ts';
import type { AskAccess, Broker, BrokerRecord, SendFailure, SendResult } from '../../publish/broker.ts';

/** Writes topics, and checks whether they can be written. */
export const fileBroker = { open: createFileBroker, access: createFileAccess };

const closedFailure: SendFailure = {
  kind: 'fatal',
  cause: 'Closed',
  message: 'the topic files are closed: svc has stopped',
};

/**
 * Topics as files with one partition, one record a line, for development and demonstrations. A record is acknowledged once the
 * operating system has it, without fsync.
 *
 * @param options `directory`: folder of the topics, each in `<topic>.ndjson`. Created if missing, readable for its owner only
 */
function createFileBroker(options: { readonly directory: string }): Broker {
  const directory = resolve(options.directory);
  const files = new Map<string, ReturnType<typeof createTopicFile>>();
  const inFlight = new Set<Promise<SendResult>>();
  let closed = false;

  function fileOf(topic: string) {
    const file = files.get(topic) ?? createTopicFile(join(directory, `${topic}.ndjson`));
    files.set(topic, file);
    return file;
  }

  async function prepareDirectory(): Promise<void> {
    await call('mkdir', directory, { recursive: true, mode: 0o700 });
    await call('access', directory, constants.W_OK | constants.X_OK);
  }

  return {
    name: 'file',

    async connect() {
      if (closed) return failed(closedFailure);
      try {
        await prepareDirectory();
        return { ok: true };
      } catch (error) {
        return failed(toSendFailure(error, directory));
      }
    },

    async send(topic, _partition, records) {
      if (closed) return failed(closedFailure);
      if (records.length === 0) return { ok: true };
      const problem = topicNameProblem(topic);
      if (problem !== undefined)
        return failed({ kind: 'fatal', cause: 'INVALID_TOPIC_EXCEPTION', message: problem });
      if (!records.every(isOneLineOfJson)) {
        const message =
          'a topic file stores only JSON text without line breaks: set svc.broker.client: kafkajs for other values';
        return failed({ kind: 'fatal', cause: 'INVALID_RECORD', message });
      }
      const append = fileOf(topic).append(encodeLines(records));
      inFlight.add(append);
      const result = await append;
      inFlight.delete(append);
      return result;
    },

    async partitionsFor(topic) {
      return topicNameProblem(topic) === undefined ? 1 : undefined;
    },

    async describe() {
      if (closed) throw new SvcError('SVC_ADAPTERS_NOT_REACHABLE', closedFailure.message);
      try {
        await prepareDirectory();
      } catch (error) {
        throw new SvcError('SVC_ADAPTERS_NOT_REACHABLE', toSendFailure(error, directory).message);
      }
      return { clusterId: null, nodeCount: 1 };
    },

    async close(deadlineMs) {
      closed = true;
      await within(deadlineMs, Promise.all(inFlight));
    },
  };
}

function failed(failure: SendFailure): SendResult {
  return { ok: false, failure };
}

const newline = Buffer.from('\n');
const lineFeed = 0x0a;
const beginsJson = new Set([...'{["-0123456789tfn'].map((character) => character.charCodeAt(0)));

/** `{"timestamp":…,"key":…,"headers":{…},"value":` and the value's own bytes, one record a line. */
function encodeLines(records: readonly BrokerRecord[]): Buffer {
  const parts: Buffer[] = [];
  for (const { timestamp, key, headers, value } of records) {
    const head = `{"timestamp":${timestamp},"key":${JSON.stringify(key)},"headers":${JSON.stringify(headers)},"value":`;
    parts.push(Buffer.from(head), value, Buffer.from('}'), newline);
  }
  return Buffer.concat(parts);
}

/** Whether the value fits a line as it is: JSON text without line breaks. Checks the bytes, without parsing. */
function isOneLineOfJson({ value }: BrokerRecord): boolean {
  return beginsJson.has(value[0] ?? 0) && !value.includes(lineFeed);
}

/** Checks whether the folder of the topic files can be written or created. Creates nothing. */
function createFileAccess({ directory }: { readonly directory: string }): AskAccess {
  return async () => {
    try {
      await checkFolder(resolve(directory));
    } catch (error) {
      throw new SvcError('SVC_ADAPTERS_NOT_REACHABLE', toSendFailure(error, directory).message);
    }
    return { cluster: undefined, topics: [], group: undefined };
  };
}

async function checkFolder(folder: string): Promise<void> {
  const found = await call<Stats>('stat', folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT' || dirname(folder) === folder) throw error;
    return undefined;
  });
  // The nearest existing folder decides.
  if (found === undefined) return checkFolder(dirname(folder));
  if (!found.isDirectory()) throw Object.assign(new Error('not a directory'), { code: 'ENOTDIR' });
  await call('access', folder, constants.W_OK | constants.X_OK);
}

interface Append {
  readonly lines: Buffer;
  readonly settle: (result: SendResult) => void;
}

const tornCheckMs = 10;
/** A larger write() would delay other work on the disk. */
const maxWriteBytes = 4 * 1024 * 1024;

function createTopicFile(path: string) {
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
    /** Appends whole lines. Concurrent appends are written together, in the order of their calls. */
    append: (lines: Buffer): Promise<SendResult> =>
      new Promise((settle) => {
        pending.push({ lines, settle });
        if (writing) return;
        writing = true;
        // The appends of this turn of the event loop go into one write.
        setImmediate(() => void writePending());
      }),
  };
}

type Called = 'access' | 'close' | 'fstat' | 'ftruncate' | 'mkdir' | 'open' | 'read' | 'stat' | 'write';

/**
 * Calls a function of `node:fs`. A start would pay 2 ms for `node:fs/promises`. An agent may have wrapped the functions, and their
 * promisified forms then lose the result.
 */
function call<Result = void>(name: Called, ...args: readonly unknown[]): Promise<Result> {
  return new Promise((resolve, reject) => {
    const done = (error: unknown, result: Result): void => (error ? reject(error) : resolve(result));
    Reflect.apply(fs[name], fs, [...args, done]);
  });
}

/** Opens the file for each write, so that it may be moved or removed meanwhile. */
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
    sizeBefore = await sizeOf(file);
    // O_APPEND keeps one write() in one piece beside other processes. A full disk may cut it short.
    while (written < bytes.length) written += await call<number>('write', file, bytes, written);
    return { ok: true };
  } catch (error) {
    const mayBeWritten = written > 0 && !(await takeBack(file, sizeBefore, written));
    return { ok: false, failure: toSendFailure(error, path, mayBeWritten) };
  } finally {
    await call('close', file).catch(() => {});
  }
}

async function openForAppend(path: string): Promise<number> {
  try {
    return await call('open', path, 'a+', 0o600);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    await call('mkdir', dirname(path), { recursive: true, mode: 0o700 });
    return call('open', path, 'a+', 0o600);
  }
}

async function sizeOf(file: number): Promise<number> {
  return (await call<Stats>('fstat', file)).size;
}

/** A process that died during a write leaves half a line. A process that is still writing gets a moment to end it. */
async function endsInTornLine(file: number): Promise<boolean> {
  if (!(await isTorn(file))) return false;
  await sleep(tornCheckMs);
  return isTorn(file);
}

async function isTorn(file: number): Promise<boolean> {
  const size = await sizeOf(file);
  if (size === 0) return false;
  const last = Buffer.alloc(1);
  await call('read', file, last, 0, 1, size - 1);
  return last[0] !== lineFeed;
}

/** Removes the part of a failed write, unless another process has written since. */
async function takeBack(file: number, sizeBefore: number, written: number): Promise<boolean> {
  try {
    if ((await sizeOf(file)) !== sizeBefore + written) return false;
    await call('ftruncate', file, sizeBefore);
    return true;
  } catch {
    return false;
  }
}

/** Of a file name's 255 bytes, `.ndjson` takes 7; Kafka itself takes 249 characters. */
const longestName = 248;

/** Kafka's rules, which also keep a topic inside its directory. `undefined`: the name is valid. */
export function topicNameProblem(topic: string): string | undefined {
  if (topic.length > longestName) {
    return `the name of topic "${topic.slice(0, 20)}…" is longer than ${longestName} characters`;
  }
  return topicNamePattern.test(topic)
    ? undefined
    : `the name of topic ${JSON.stringify(topic)} must be ${topicNameForm}`;
}

/** `unknown_outcome` if a part of the records may be in the file. */
function toSendFailure(error: unknown, path: string, mayBeWritten = false): SendFailure {
  const cause = (error as NodeJS.ErrnoException).code ?? (error instanceof Error ? error.name : 'Error');
  return { kind: mayBeWritten ? 'unknown_outcome' : kindOf(cause), cause, message: messageOf(cause, path) };
}

function messageOf(cause: string, path: string): string {
  switch (cause) {
    case 'ENOSPC':
    case 'EDQUOT':
      return `no space left to write "${path}": free some space, or choose another svc.broker.file.path`;
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
      return `"${path}" cannot be written: permission denied (${cause}): check its permissions and svc.broker.file.path`;
    case 'ENOTDIR':
    case 'EEXIST':
      return `"${path}" cannot be created, because a part of it is not a directory (${cause}): check svc.broker.file.path`;
    case 'EISDIR':
      return `"${path}" is a directory and not a file (EISDIR): move it away`;
    default:
      return `"${path}" could not be written (${cause}): check svc.broker.file.path`;
  }
}

const mayPass = new Set([
  'ENOSPC',
  'EDQUOT',
  'EMFILE',
  'ENFILE',
  'EIO',
  'EAGAIN',
  'EBUSY',
  'ENOMEM',
  'EFBIG',
  'ENOENT',
]);

function kindOf(cause: string): SendFailure['kind'] {
  return mayPass.has(cause) ? 'retriable' : 'fatal';
}
