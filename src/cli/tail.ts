import { createReadStream, existsSync } from 'node:fs';
import { createInterface } from 'node:readline';
import type { Command } from 'commander';
import { formatProblem } from '../config/check/check.ts';
import type { Config } from '../config/config.ts';
import { loadConfig } from '../config/read/load.ts';
import {
  type DecryptionKeys,
  type DecryptOptions,
  findEnvelope,
  readKeysFile,
  tryDecryptFields,
} from '../consumer/decrypt-fields.ts';
import { SvcError } from '../ground/errors.ts';
import { isEventId } from '../ground/event-fields.ts';
import { clientOf } from '../ground/management.ts';
import { parseRulePath } from '../ground/pii-rule.ts';
import { printable, printableJson } from '../observe/logger.ts';
import {
  newestOf,
  openDecryption,
  type TopicRecord,
  tailTopic,
  valueReader,
} from '../start/commands/inspect.ts';
import { brokerOption, onRequest, recoveryConfig, repeated, timeOf } from './recovery.ts';
import { createProgress, does, onStopSignal, reportFailure, WrongUse, warnOnly } from './terminal.ts';

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

/** `problem`: why the value, or a field of it, cannot be read. */
interface Shown {
  readonly record: TopicRecord;
  readonly value: unknown;
  readonly problem: string | undefined;
}

/** @throws WrongUse */
function limitOf(text: string): number {
  const limit = Number(text);
  if (Number.isInteger(limit) && limit >= 1) return limit;
  throw new WrongUse('--limit takes a number of events, from 1');
}

/**
 * `svc tail <topic>`. Exit codes: 0 it ended as requested, Ctrl-C included, 1 the broker or a value cannot be read.
 *
 * @throws WrongUse
 */
async function runTail(options: TailOptions, topic: string): Promise<number> {
  const { since, until, limit = Number.POSITIVE_INFINITY } = options;
  if (since !== undefined && until !== undefined && since >= until)
    throw new WrongUse('--since is not before --until');
  if (since === undefined && until !== undefined && until <= Date.now())
    throw new WrongUse('--until is in the past: add --since. Without --since, only new events are shown');
  if (options.follow && until !== undefined) throw new WrongUse('--follow and --until contradict each other');
  const accept = acceptHeaders(options);
  const { config, checkBroker } = recoveryConfig(options);
  // Without a configured broker, an application writes to files, which can be read.
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
    warnOnly(config);
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
    // A limit without a time means the newest events.
    const isOfNewest = limit < Number.POSITIVE_INFINITY && !options.follow && (since ?? until) === undefined;
    if (isOfNewest) {
      const asked = { topic, count: limit, accept: isWanted };
      for (const record of await newestOf(config, asked, stopping.signal)) await print(record);
    } else {
      const isEnding = limit < Number.POSITIVE_INFINITY && !options.follow;
      const untilMs = until ?? (isEnding ? Date.now() : undefined);
      await tailTopic(config, { topic, fromMs: since, untilMs }, stopping.signal, async (records) => {
        for (const record of records) {
          if (stopping.signal.aborted) return;
          if (isWanted(record)) await print(record);
          if (counts.shown >= limit) stopping.abort();
        }
      });
    }
  } catch (error) {
    return reportFailure(error);
  } finally {
    forget();
  }
  process.stderr.write(`${summaryOf(counts, isInterrupted)}\n`);
  return counts.failed === 0 ? 0 : 1;
}

/** Reads values, and decrypts them if keys are given. */
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

/** Waits for a slow reader. */
async function write(text: string): Promise<void> {
  if (process.stdout.write(text)) return;
  await new Promise<void>((resolve) => process.stdout.once('drain', resolve));
}

type Headers = Readonly<Record<string, string>>;

/**
 * Selects records by their headers, before values are decoded. All given names must match; of one name, any of its values.
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

/** Results as lines, or as the document of `--json`. */
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

/** `svc decrypt [file]`: prints envelopes with decrypted fields. Failures go to standard error. */
async function runDecrypt(options: DecryptKeyOptions, file: string | undefined): Promise<number> {
  // A closed pipe (`| head`) ends the command.
  process.stdout.once('error', () => process.exit(1));

  const counts: Counts = { records: 0, decrypted: 0, failed: 0 };
  const output = options.json ? oneDocument() : lines();
  const progress = createProgress(process.stderr);
  // Typed input, and output on the same terminal, need no progress.
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

/** A keys file is enough, so that events can be read on a machine without the application. */
function configOf({ config: file, keysFile }: DecryptKeyOptions): Config | undefined {
  return keysFile !== undefined && file === undefined ? undefined : loadKeys(file);
}

/** Keys of the file, the environment and the configuration. Each opens what it encrypted. */
function openKeys(
  { keysFile, keyId: keyIds = [] }: DecryptKeyOptions,
  config: Config | undefined,
): DecryptionKeys {
  const keys = keysFile === undefined ? [] : readKeysFile(keysFile);
  return openDecryption({ config, keys, defaultKey: process.env.PII_ENCRYPTION_KEY, keyIds });
}

/** Format v0 is decrypted in the given fields, or else where rules of the configuration encrypt. */
function fieldsOf({ field, anyField }: DecryptKeyOptions, config: Config | undefined): DecryptOptions {
  for (const path of field ?? []) {
    const steps = parseRulePath(path);
    if (typeof steps === 'string') throw new WrongUse(`--field ${steps}`);
  }
  if (anyField) return { only: field, v0: 'anywhere' };
  return field === undefined ? { v0: config && encryptedFields(config) } : { only: field };
}

/** Paths that rules of the configuration encrypt. Marks of classes and rules in code are unknown here. */
function encryptedFields({ pii, targets }: Config): readonly string[] {
  const rules = [...pii.fields, ...targets.flatMap((target) => target.pii ?? [])];
  const paths = rules.filter(({ strategy }) => strategy === 'ENCRYPT').map(({ path }) => path);
  return [...paths, ...paths.map(underValue).filter((path) => typeof parseRulePath(path) !== 'string')];
}

/** A payload that is not an object is published as `{ "value": … }`. */
function underValue(path: string): string {
  const bare = path.replace(/^\$(\.|(?=\[))/, '');
  return bare.startsWith('[') ? `value${bare}` : `value.${bare}`;
}

/** Throws `WrongUse` if the file or its key settings are invalid. Other problems are ignored. */
function loadKeys(file: string | undefined): Config {
  const { config, problems, isReadable } = loadConfig({ file });
  const isOther = (name: string) => /^(svc|management)\./.test(name) && !isOfKeys(name);
  // The first problem of an unreadable file has the file's name, which may begin with `svc.` as well.
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
    // For example, it is nested too deep to write. One bad document must not end the rest.
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

/** Only a valid event id is shown. */
function idOf(envelope: object): string | undefined {
  const { id, eventId = id } = envelope as { eventId?: unknown; id?: unknown };
  return typeof eventId === 'string' && isEventId(eventId) ? eventId : undefined;
}

function unreadable(why: string): SvcError {
  return new SvcError('SVC_CONSUMER_NOT_AN_ENVELOPE', why);
}

/** Standard error, without control characters from the input. */
function complain(line: string): void {
  process.stderr.write(`svc: ${printable(line)}\n`);
}

function describe(error: unknown, file: string | undefined): string {
  if (error instanceof SvcError) return `${error.message} (${error.code})`;
  const reason = (error as NodeJS.ErrnoException).code ?? 'unexpected error';
  return `${file === undefined ? 'standard input' : `"${file}"`} cannot be read (${reason})`;
}

/** A JSON document of the input, or a line that is not JSON. */
interface InputDocument {
  readonly line: number;
  readonly isJson: boolean;
  readonly document: unknown;
}

/**
 * Reads one JSON document per line, or one that fills the whole input, where an array counts as its elements. If the whole is not JSON,
 * each line is read separately.
 */
async function* readDocuments(file: string | undefined): AsyncGenerator<InputDocument> {
  const input = file === undefined ? process.stdin : createReadStream(file);
  // Awaits the open, so that a missing file is an error here and not an unhandled event.
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

/** Whether a line is a complete JSON object or array. */
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

/** `svc tail`, and `svc decrypt`, which reads what is stored. */
export function addReaders(svc: Command): void {
  addTail(svc);
  addDecrypt(svc);
}

function addTail(svc: Command): void {
  const tail = svc
    .command('tail')
    .summary('show the events of a topic as they arrive')
    .description('Shows the events of a topic as they arrive, until Ctrl-C. It joins no consumer group.')
    .argument('<topic>')
    .option(
      '--since <time>',
      'begin with events stored since: 2026-03-04T10:00:00Z, or 90m (90 minutes ago); default: new events only',
      timeOf('since'),
    )
    .option('--until <time>', 'end with events stored before', timeOf('until'))
    .option(
      '--limit <number>',
      'end after this many, or at the end of the topic; without --since: the newest',
      limitOf,
    )
    .option('--follow', 'with --limit: wait for new events')
    .option('--type <event type>', 'only these; repeatable', repeated)
    .option('--header <name=value>', 'only events with this header; repeatable', repeated)
    .option('--decrypt', 'decrypt with the keys of the configuration and of PII_ENCRYPTION_KEY')
    .option('--keys-file <file>', 'decrypt with the keys of this file, in the format of svc decrypt')
    .option('--key-id <id>', 'a key to request from svc.pii.kms; repeatable', repeated)
    .option(...brokerOption);
  does(tail, runTail);
}

function addDecrypt(svc: Command): void {
  const decrypt = svc
    .command('decrypt')
    .summary('show envelopes with their encrypted fields readable')
    .description('Shows envelopes with their encrypted fields readable; exit 1 if a field or line fails.')
    .argument(
      '[file]',
      'one envelope or record of the file broker per line, or one JSON document (default: standard input)',
    )
    .option(
      '--keys-file <file>',
      'JSON, { "keys": [{ "id": "…", "key": "<Base64>" }] }, besides the key in PII_ENCRYPTION_KEY; replaces the configuration, unless --config is given',
    )
    .option(
      '--key-id <id>',
      'a key to request from svc.pii.kms, besides the configured keys; repeatable',
      repeated,
    )
    .option(
      '--field <path>',
      'a field to decrypt, as rules write it (customer.email, **.iban); repeatable (default: format v1 anywhere, v0 only where the configuration encrypts)',
      repeated,
    )
    .option('--any-field', 'decrypt format v0 anywhere, even where others copied it to');
  does(decrypt, runDecrypt);
}
