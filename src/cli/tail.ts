import { existsSync } from 'node:fs';
import type { Config } from '../config/config.ts';
import { tryDecryptFields } from '../consumer/decrypt-fields.ts';
import { SvcError } from '../ground/errors.ts';
import { consoleLogger, printable, printableJson } from '../observe/logger.ts';
import { newestOf, type TopicRecord, tailTopic, valueReader } from '../start/commands/tail-topic.ts';
import { fieldsOf, openKeys } from './decrypt.ts';
import { onStopSignal } from './progress.ts';
import { onRequest, recoveryConfig } from './recovery.ts';
import { WrongUse } from './wrong-use.ts';

// `svc tail`, the events of a topic as they come.

interface TailOptions {
  readonly config?: string;
  readonly json?: true;
  readonly broker?: string;
  readonly since?: number;
  readonly until?: number;
  readonly limit?: number;
  readonly follow?: true;
  readonly type?: readonly string[];
  readonly header?: readonly string[];
  readonly decrypt?: true;
  readonly keysFile?: string;
  readonly keyId?: readonly string[];
}

/** As it is shown; `problem` where its value, or a field of it, cannot be read. */
interface Shown {
  readonly record: TopicRecord;
  readonly value: unknown;
  readonly problem: string | undefined;
}

/** @throws WrongUse */
export function limitOf(text: string): number {
  const limit = Number(text);
  if (Number.isInteger(limit) && limit >= 1) return limit;
  throw new WrongUse('--limit takes a number of events, from 1');
}

/**
 * `svc tail <topic>`. Exit codes: 0 it ended as it was told, Ctrl-C included, 1 the broker cannot be read, or a value.
 *
 * @throws WrongUse
 */
export async function runTail(options: TailOptions, topic: string): Promise<number> {
  const { since, until, limit = Number.POSITIVE_INFINITY } = options;
  if (since !== undefined && until !== undefined && since >= until)
    throw new WrongUse('--since is not before --until');
  if (since === undefined && until !== undefined && until <= Date.now())
    throw new WrongUse(
      '--until is past, and without --since only what comes from now on is shown: give both',
    );
  if (options.follow && until !== undefined) throw new WrongUse('--follow has no end, and --until is one');
  const accept = acceptHeaders(options);
  const { config, checkBroker } = recoveryConfig(options);
  // An application that nobody has told of a broker writes to files: they are there to be read.
  const { client, file } = config.broker;
  if (client !== 'file' || (config.file === undefined && !existsSync(file.path))) checkBroker();
  if (config.file !== undefined) process.stderr.write(`svc: configuration ${config.file}\n`);
  const stopping = new AbortController();
  let isInterrupted = false;
  const forget = onStopSignal(() => {
    isInterrupted = true;
    stopping.abort();
  });
  const counts = { shown: 0, leftOut: 0, failed: 0 };
  try {
    const show = opener(options, config);
    const logger = consoleLogger(config.log.level === 'debug' ? 'debug' : 'warn');
    const isWanted = (record: TopicRecord): boolean => {
      const isAccepted = accept(record.headers);
      if (!isAccepted) counts.leftOut++;
      return isAccepted;
    };
    const print = async (record: TopicRecord): Promise<void> => {
      const shown = await show(record);
      if (shown.problem !== undefined) counts.failed++;
      counts.shown++;
      await write(options.json ? documentOf(shown) : lineOf(shown));
    };
    // Whoever wants so many events, and does not say when: the newest.
    const isOfNewest = limit < Number.POSITIVE_INFINITY && !options.follow && (since ?? until) === undefined;
    if (isOfNewest) {
      const asked = { topic, count: limit, accept: isWanted };
      for (const record of await newestOf(config, logger, asked, stopping.signal)) await print(record);
    } else {
      const isEnding = limit < Number.POSITIVE_INFINITY && !options.follow;
      const untilMs = until ?? (isEnding ? Date.now() : undefined);
      await tailTopic(config, logger, { topic, fromMs: since, untilMs }, stopping.signal, async (records) => {
        for (const record of records) {
          if (stopping.signal.aborted) return;
          if (isWanted(record)) await print(record);
          if (counts.shown >= limit) stopping.abort();
        }
      });
    }
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    process.stderr.write(`svc: ${printable(error.message)}\n`);
    return 1;
  } finally {
    forget();
  }
  process.stderr.write(`${summaryOf(counts, isInterrupted)}\n`);
  return counts.failed === 0 ? 0 : 1;
}

/** Reads values, and decrypts them where somebody gave keys. */
function opener(
  { config: file, decrypt, keysFile, keyId }: TailOptions,
  config: Config,
): (record: TopicRecord) => Promise<Shown> {
  const read = valueReader(config);
  const isOpening = decrypt === true || keysFile !== undefined || keyId !== undefined;
  const given = { config: file, keysFile, keyId };
  const ofConfig = keysFile !== undefined && decrypt === undefined ? undefined : config;
  const keys = isOpening ? openKeys(given, ofConfig) : undefined;
  const fields = fieldsOf({}, ofConfig);
  return async (record) => {
    try {
      const value = await read(record);
      if (keys === undefined || typeof value !== 'object' || value === null)
        return { record, value, problem: undefined };
      const { envelope, failures } = await tryDecryptFields(value, keys, fields);
      const problem = failures.map(({ path, error }) => `${path}: ${error.message}`).join('; ');
      return { record, value: envelope, problem: problem === '' ? undefined : problem };
    } catch (error) {
      if (!(error instanceof SvcError)) throw error;
      return { record, value: undefined, problem: error.message };
    }
  };
}

function documentOf({ record, value, problem }: Shown): string {
  const { partition, offset, timestamp, key, headers } = record;
  const at = new Date(timestamp).toISOString();
  const document = {
    partition,
    offset,
    at,
    key,
    headers,
    value: value ?? null,
    ...(problem !== undefined && { problem }),
  };
  return `${printableJson(document)}\n`;
}

function lineOf({ record, value, problem }: Shown): string {
  const { partition, offset, timestamp, key, headers } = record;
  const at = new Date(timestamp).toISOString();
  const place = `${at}  ${partition}/${offset}  ${headers.eventType ?? '-'}  ${key ?? '-'}`;
  const { payload = value } = (typeof value === 'object' && value !== null ? value : {}) as {
    payload?: unknown;
  };
  const shown = value === undefined ? '' : `  ${printableJson(payload ?? null)}`;
  return `${printable(place)}${shown}${problem === undefined ? '' : `  (${printable(problem)})`}\n`;
}

function summaryOf(
  { shown, leftOut, failed }: Record<'shown' | 'leftOut' | 'failed', number>,
  isInterrupted: boolean,
): string {
  const parts = [`${shown} ${shown === 1 ? 'event' : 'events'}`];
  if (leftOut > 0) parts.push(`${leftOut} left out by the filters`);
  if (failed > 0) parts.push(`${failed} not readable`);
  return `${parts.join(', ')}${isInterrupted ? `; ${onRequest}` : ''}`;
}

/** A reader that is slower than the topic is waited for. */
async function write(text: string): Promise<void> {
  if (process.stdout.write(text)) return;
  await new Promise<void>((resolve) => process.stdout.once('drain', resolve));
}

type Headers = Readonly<Record<string, string>>;

/**
 * Which records are wanted, by their headers alone: a value that nobody wants is not decoded. Of one name any value will do, of
 * several names each has to be there.
 *
 * @throws WrongUse
 */
function acceptHeaders({
  type: types = [],
  header: given = [],
}: {
  readonly type?: readonly string[];
  readonly header?: readonly string[];
}): (headers: Headers) => boolean {
  const wanted = new Map<string, string[]>();
  const add = (name: string, value: string) => wanted.set(name, [...(wanted.get(name) ?? []), value]);
  for (const type of types) add('eventType', type);
  for (const text of given) {
    const at = text.indexOf('=');
    if (at < 1) throw new WrongUse('--header takes name=value, as tenant=acme');
    add(text.slice(0, at), text.slice(at + 1));
  }
  const all = [...wanted];
  return (headers) =>
    all.every(([name, values]) => Object.hasOwn(headers, name) && values.includes(headers[name] as string));
}
