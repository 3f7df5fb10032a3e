import { createReadStream, existsSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { formatProblem } from '../config/check/validate.ts';
import type { Config } from '../config/config.ts';
import { loadConfig } from '../config/read/load.ts';
import {
  type DecryptionKeys,
  type DecryptOptions,
  findEnvelope,
  isCloudEvent,
  readKeysFile,
  tryDecryptFields,
} from '../consumer/decrypt-fields.ts';
import { SvcError } from '../ground/errors.ts';
import { isEventId } from '../ground/event-fields.ts';
import { clientOf } from '../ground/management.ts';
import { parseRulePath } from '../ground/pii-rule.ts';
import { consoleLogger, printable, printableJson } from '../observe/logger.ts';
import {
  encryptedFields,
  newestOf,
  openDecryption,
  type TopicRecord,
  tailTopic,
  valueReader,
} from '../start/commands/inspect.ts';
import { createProgress, onStopSignal } from './progress.ts';
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
    throw new WrongUse('--until is in the past: add --since. Without --since, only new events are shown');
  if (options.follow && until !== undefined) throw new WrongUse('--follow and --until contradict each other');
  const accept = acceptHeaders(options);
  const { config, checkBroker } = recoveryConfig(options);
  // An application that nobody has told of a broker writes to files: they are there to be read.
  const { client, file } = config.broker;
  if (!clientOf(client).isFiles || (config.file === undefined && !existsSync(file.path))) checkBroker();
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

interface Failure {
  readonly line: number;
  readonly eventId: string | undefined;
  readonly path: string | undefined;
  readonly code: string;
  readonly message: string;
}

/** Where results go: line by line, or into the one document of `--json`. */
interface Output {
  record(record: object): Promise<void>;
  failure(failure: Failure): void;
  end(counts: Counts): void;
}

interface Counts {
  records: number;
  decrypted: number;
  failed: number;
}

interface DecryptKeyOptions {
  readonly config?: string | undefined;
  readonly keysFile?: string | undefined;
  readonly keyId?: readonly string[] | undefined;
  readonly field?: readonly string[];
  readonly anyField?: true;
  readonly json?: true;
}

/** `svc decrypt [file]`: envelopes with their encrypted fields readable, on standard output; what fails, on standard error. */
export async function runDecrypt(options: DecryptKeyOptions, file: string | undefined): Promise<number> {
  // A closed pipe (`| head`) ends the command.
  process.stdout.once('error', () => process.exit(1));

  const counts: Counts = { records: 0, decrypted: 0, failed: 0 };
  const output = options.json ? oneDocument() : lines();
  const progress = createProgress(process.stderr);
  // Nobody waits for what is typed, or is seen on the same terminal.
  const hasProgress = process.stdout.isTTY !== true && (file !== undefined || process.stdin.isTTY !== true);
  try {
    const config = configOf(options);
    const fields = fieldsOf(options, config);
    const keys = openKeys(options, config);
    for await (const document of readDocuments(file)) {
      await decryptOne(document, keys, fields, counts, output);
      if (hasProgress) progress.show(counts.records, undefined);
    }
    progress.end();
    await keys.close();
  } catch (error) {
    progress.end();
    if (error instanceof WrongUse) throw error;
    complain(describe(error, file));
    return 1;
  }
  output.end(counts);
  return counts.failed === 0 ? 0 : 1;
}

/** A keys file alone is enough, so that events can be read on a machine without the application. */
function configOf({ config: file, keysFile }: DecryptKeyOptions): Config | undefined {
  return keysFile !== undefined && file === undefined ? undefined : loadKeys(file);
}

/** Keys of the file, of the environment and of the configuration: each opens what it made. */
function openKeys(
  { keysFile, keyId: keyIds = [] }: DecryptKeyOptions,
  config: Config | undefined,
): DecryptionKeys {
  const keys = keysFile === undefined ? [] : readKeysFile(keysFile);
  return openDecryption({ config, keys, defaultKey: process.env.PII_ENCRYPTION_KEY, keyIds });
}

/** Format v0 opens where the caller says so, else where the rules of the configuration encrypt. */
function fieldsOf({ field, anyField }: DecryptKeyOptions, config: Config | undefined): DecryptOptions {
  for (const path of field ?? []) {
    const steps = parseRulePath(path);
    if (typeof steps === 'string') throw new WrongUse(`--field ${steps}`);
  }
  if (anyField) return { only: field, v0: 'anywhere' };
  return field === undefined ? { v0: config && encryptedFields(config) } : { only: field };
}

/** Throws `WrongUse` for what is wrong with the file, or with its settings for keys; others do not matter here. */
function loadKeys(file: string | undefined): Config {
  const { config, problems, isReadable } = loadConfig({ file });
  const isOther = (name: string) => /^(svc|management)\./.test(name) && !isOfKeys(name);
  // The file is called svc.… as its settings are.
  const wrong = problems.filter(({ name }, index) => !isOther(name) || (!isReadable && index === 0));
  if (wrong.length > 0) throw new WrongUse(wrong.map(formatProblem).join('\nsvc: '));
  if (config.file !== undefined) process.stderr.write(`svc: configuration ${config.file}\n`);
  return config;
}

function isOfKeys(name: string): boolean {
  return /^svc\.pii\.(crypto\.(default-key|keys)$|kms\.)/.test(name);
}

async function decryptOne(
  { line, isJson, document }: InputDocument,
  keys: DecryptionKeys,
  fields: DecryptOptions,
  counts: Counts,
  output: Output,
): Promise<void> {
  let eventId: string | undefined;
  const fail = ({ code, message }: SvcError, path?: string): void => {
    counts.failed++;
    output.failure({ line, eventId, path, code, message });
  };
  counts.records++;
  try {
    if (!isJson) throw unreadable('this is not valid JSON');
    const { envelope, withEnvelope } = findEnvelope(document);
    eventId = idOf(envelope);
    const result = await tryDecryptFields(envelope, keys, fields);
    counts.decrypted += result.decrypted;
    for (const { error, path } of result.failures) fail(error, path);
    await output.record(withEnvelope(result.envelope));
  } catch (error) {
    // Nested too deep to be written, for one. One bad document must not end the rest.
    fail(error instanceof SvcError ? error : unreadable('this cannot be read or written'));
  }
}

function lines(): Output {
  return {
    async record(record) {
      if (process.stdout.write(`${printableJson(record)}\n`)) return;
      await new Promise<void>((resolve) => process.stdout.once('drain', resolve));
    },
    failure({ line, eventId, path, code, message }) {
      const where = [`line ${line}`, eventId && `event ${eventId}`, path].filter(Boolean).join(', ');
      complain(`${where}: ${message} (${code})`);
    },
    end({ records, decrypted, failed }) {
      complain(`${records} records, ${decrypted} fields decrypted, ${failed} failures`);
    },
  };
}

function oneDocument(): Output {
  const [envelopes, failures] = [[] as object[], [] as Failure[]];
  return {
    record: async (record) => void envelopes.push(record),
    failure: (failure) => void failures.push(failure),
    end({ records, decrypted, failed }) {
      const document = { ok: failed === 0, records, decrypted, failures, envelopes };
      process.stdout.write(`${printableJson(document, 2)}\n`);
    },
  };
}

/** What is in its place and no event id is not shown. */
function idOf(envelope: object): string | undefined {
  const eventId = isCloudEvent(envelope) ? envelope.id : (envelope as { eventId?: unknown }).eventId;
  return typeof eventId === 'string' && isEventId(eventId) ? eventId : undefined;
}

function unreadable(why: string): SvcError {
  return new SvcError('SVC_CONSUMER_NOT_AN_ENVELOPE', why);
}

/** On standard error, where nothing out of a file may steer a terminal. */
function complain(line: string): void {
  process.stderr.write(`svc: ${printable(line)}\n`);
}

function describe(error: unknown, file: string | undefined): string {
  if (error instanceof SvcError) return `${error.message} (${error.code})`;
  const reason = (error as NodeJS.ErrnoException).code ?? 'unexpected error';
  return `${file === undefined ? 'standard input' : `"${file}"`} cannot be read (${reason})`;
}

/** A JSON document of the input, or the line that is none. */
interface InputDocument {
  readonly line: number;
  readonly isJson: boolean;
  readonly document: unknown;
}

/**
 * JSON documents, one a line; or one that fills the whole input, where an array counts as its elements. A line that only looks
 * like the beginning of such a one is a bad line among others.
 */
async function* readDocuments(file: string | undefined): AsyncGenerator<InputDocument> {
  const input = file === undefined ? process.stdin : createReadStream(file);
  // Opening is waited for, so that a missing file is an error here and not an event that nobody listens to.
  if (file !== undefined) await opened(input);
  let line = 0;
  let isFirst = true;
  let whole: Whole | undefined;
  for await (const text of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
    line++;
    if (whole !== undefined) {
      whole.texts.push(text);
      continue;
    }
    if (text.trim() === '') continue;
    if (isFirst && isOpening(text)) whole = { firstLine: line, texts: [text] };
    else yield* elementsOf(parse(text, line));
    isFirst = false;
  }
  if (whole !== undefined) yield* documentsOf(whole);
}

interface Whole {
  readonly firstLine: number;
  readonly texts: string[];
}

function* documentsOf({ firstLine, texts }: Whole): Generator<InputDocument> {
  const all = parse(texts.join('\n'), firstLine);
  if (all.isJson || !texts.some(isObject)) return yield* elementsOf(all);
  for (const [index, text] of texts.entries())
    if (text.trim() !== '') yield* elementsOf(parse(text, firstLine + index));
}

function* elementsOf(found: InputDocument): Generator<InputDocument> {
  if (!Array.isArray(found.document)) return yield found;
  for (const document of found.document as unknown[]) yield { ...found, document };
}

/** Whether a line is a document of its own. */
function isObject(text: string): boolean {
  const { document } = parse(text, 0);
  return typeof document === 'object' && document !== null;
}

/** The first line of a document over several lines, or an array. */
function isOpening(text: string): boolean {
  return /^\s*(\[|\{\s*$)/.test(text);
}

function parse(text: string, line: number): InputDocument {
  try {
    return { line, isJson: true, document: JSON.parse(text) as unknown };
  } catch {
    return { line, isJson: false, document: undefined };
  }
}

function opened(input: NodeJS.ReadableStream): Promise<void> {
  return new Promise((resolve, reject) => {
    input.once('open', () => resolve());
    input.once('error', reject);
  });
}
