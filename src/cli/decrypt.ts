import { formatProblem } from '../config/check/problem.ts';
import type { Config } from '../config/config.ts';
import { loadConfig } from '../config/read/load.ts';
import { findEnvelope } from '../consumer/decrypt-batch.ts';
import { type DecryptOptions, isCloudEvent, tryDecryptFields } from '../consumer/decrypt-fields.ts';
import { type DecryptionKeys, readKeysFile } from '../consumer/decryption-keys.ts';
import { SvcError } from '../ground/errors.ts';
import { isEventId } from '../ground/event-fields.ts';
import { parseRulePath } from '../ground/pii-rule.ts';
import { printable, printableJson } from '../observe/logger.ts';
import { encryptedFields, openDecryption } from '../start/commands/tail-topic.ts';
import { createProgress } from './progress.ts';
import { type InputDocument, readDocuments } from './read-documents.ts';
import { WrongUse } from './wrong-use.ts';

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

export interface DecryptKeyOptions {
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
export function openKeys(
  { keysFile, keyId: keyIds = [] }: DecryptKeyOptions,
  config: Config | undefined,
): DecryptionKeys {
  const keys = keysFile === undefined ? [] : readKeysFile(keysFile);
  return openDecryption({ config, keys, defaultKey: process.env.PII_ENCRYPTION_KEY, keyIds });
}

/** Format v0 opens where the caller says so, else where the rules of the configuration encrypt. */
export function fieldsOf({ field, anyField }: DecryptKeyOptions, config: Config | undefined): DecryptOptions {
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
