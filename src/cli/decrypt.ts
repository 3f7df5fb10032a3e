import { parseArgs } from 'node:util';
import type { Config } from '../config/config.ts';
import { loadConfig } from '../config/load.ts';
import { formatProblem } from '../config/problem.ts';
import { tryDecryptFields } from '../consumer/decrypt-fields.ts';
import type { DecryptionKeys } from '../consumer/decryption-keys.ts';
import { findEnvelope } from '../consumer/find-envelope.ts';
import { readKeysFile } from '../consumer/keys-file.ts';
import { SvcError } from '../errors.ts';
import { isEventId } from '../event-id.ts';
import { openDecryption } from '../start-decryption.ts';
import { type InputDocument, readDocuments } from './read-documents.ts';
import { WrongUse } from './recovery-options.ts';

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

interface Options {
  readonly config?: string | undefined;
  readonly 'keys-file'?: string | undefined;
  readonly 'key-id'?: string[] | undefined;
  readonly json?: boolean | undefined;
}

/** `svc decrypt [file]`: envelopes with their encrypted fields readable, on standard output; what fails, on standard error. */
export async function runDecrypt(args: readonly string[]): Promise<number> {
  let options: Options;
  let files: string[];
  try {
    const parsed = parseArgs({
      args: [...args],
      options: {
        config: { type: 'string' },
        'keys-file': { type: 'string' },
        'key-id': { type: 'string', multiple: true },
        json: { type: 'boolean' },
      },
      allowPositionals: true,
    });
    [options, files] = [parsed.values, parsed.positionals];
    if (files.length > 1) throw new Error('decrypt takes one file');
  } catch (error) {
    process.stderr.write(`svc: ${(error as Error).message}; see svc --help\n`);
    return 2;
  }
  // A closed pipe (`| head`) ends the command.
  process.stdout.once('error', () => process.exit(1));

  const counts: Counts = { records: 0, decrypted: 0, failed: 0 };
  const output = options.json === true ? oneDocument() : lines();
  try {
    const keys = openKeys(options);
    for await (const document of readDocuments(files[0])) await decryptOne(document, keys, counts, output);
    await keys.close();
  } catch (error) {
    if (error instanceof WrongUse) throw error;
    process.stderr.write(`svc: ${describe(error, files[0])}\n`);
    return 1;
  }
  output.end(counts);
  return counts.failed === 0 ? 0 : 1;
}

/**
 * Keys of the file, of the environment and of the configuration: each opens what it made. A keys file alone is enough, so that
 * events can be read on a machine without the application.
 */
function openKeys({ config: file, 'keys-file': keysFile, 'key-id': keyIds = [] }: Options): DecryptionKeys {
  const keys = keysFile === undefined ? [] : readKeysFile(keysFile);
  const config = keysFile !== undefined && file === undefined ? undefined : loadKeys(file);
  return openDecryption({ config, keys, defaultKey: process.env.PII_ENCRYPTION_KEY, keyIds });
}

/** Throws `WrongUse` for what is wrong with the file, or with its settings for keys; others do not matter here. */
function loadKeys(file: string | undefined): Config {
  const env = file === undefined ? process.env : { ...process.env, SVC_CONFIG: file };
  const { config, problems } = loadConfig({ env });
  const wrong = problems.filter(({ name }) => !/^(svc|management)\./.test(name) || isOfKeys(name));
  if (wrong.length > 0) throw new WrongUse(wrong.map(formatProblem).join('\nsvc: '));
  return config;
}

function isOfKeys(name: string): boolean {
  return /^svc\.pii\.(crypto\.(default-key|keys)$|kms\.)/.test(name);
}

async function decryptOne(
  { line, isJson, document }: InputDocument,
  keys: DecryptionKeys,
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
    if (!isJson) throw new SvcError('SVC_CONSUMER_NOT_AN_ENVELOPE', 'this is not valid JSON');
    const { envelope, withEnvelope } = findEnvelope(document);
    eventId = idOf(envelope);
    const result = await tryDecryptFields(envelope, keys);
    counts.decrypted += result.decrypted;
    for (const { error, path } of result.failures) fail(error, path);
    await output.record(withEnvelope(result.envelope));
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    fail(error);
  }
}

function lines(): Output {
  return {
    async record(record) {
      if (process.stdout.write(`${JSON.stringify(record)}\n`)) return;
      await new Promise<void>((resolve) => process.stdout.once('drain', resolve));
    },
    failure({ line, eventId, path, code, message }) {
      const where = [`line ${line}`, eventId && `event ${eventId}`, path].filter(Boolean).join(', ');
      process.stderr.write(`svc: ${where}: ${message} (${code})\n`);
    },
    end({ records, decrypted, failed }) {
      process.stderr.write(`svc: ${records} records, ${decrypted} fields decrypted, ${failed} failures\n`);
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
      process.stdout.write(`${JSON.stringify(document, null, 2)}\n`);
    },
  };
}

/** What is in its place and no event id is not shown. */
function idOf(envelope: object): string | undefined {
  const { eventId } = envelope as { eventId?: unknown };
  return typeof eventId === 'string' && isEventId(eventId) ? eventId : undefined;
}

function describe(error: unknown, file: string | undefined): string {
  if (error instanceof SvcError) return `${error.message} (${error.code})`;
  const reason = (error as NodeJS.ErrnoException).code ?? 'unexpected error';
  return `${file === undefined ? 'standard input' : `"${file}"`} cannot be read (${reason})`;
}
