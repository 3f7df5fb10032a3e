import { parseArgs } from 'node:util';
import { tryDecryptFields } from '../consumer/decrypt-fields.ts';
import { createDecryptionKeys, type DecryptionKeys } from '../consumer/decryption-keys.ts';
import { findEnvelope } from '../consumer/find-envelope.ts';
import { readKeysFile } from '../consumer/keys-file.ts';
import { SvcError } from '../errors.ts';
import { type InputDocument, readDocuments } from './read-documents.ts';

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

/** `svc decrypt [file]`: envelopes with their encrypted fields readable, on standard output; what fails, on standard error. */
export async function runDecrypt(args: readonly string[]): Promise<number> {
  let options: { 'keys-file'?: string | undefined; json?: boolean | undefined };
  let files: string[];
  try {
    const parsed = parseArgs({
      args: [...args],
      options: { 'keys-file': { type: 'string' }, json: { type: 'boolean' } },
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
    const keys = openKeys(options['keys-file']);
    for await (const document of readDocuments(files[0])) await decryptOne(document, keys, counts, output);
    await keys.close();
  } catch (error) {
    process.stderr.write(`svc: ${describe(error, files[0])}\n`);
    return 1;
  }
  output.end(counts);
  return counts.failed === 0 ? 0 : 1;
}

/** The keys of the file and the one of the environment: each opens what it made. */
function openKeys(keysFile: string | undefined): DecryptionKeys {
  const fromFile = keysFile === undefined ? [] : readKeysFile(keysFile);
  const key = process.env.PII_ENCRYPTION_KEY;
  const isEnough = key === undefined || fromFile.some(({ id }) => id === 'default');
  return createDecryptionKeys({
    keys: isEnough ? fromFile : [...fromFile, { id: 'default', key, status: 'decrypt' }],
  });
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

/** Ids are digits: anything else in their place is not shown. */
function idOf(envelope: object): string | undefined {
  const { eventId } = envelope as { eventId?: unknown };
  return typeof eventId === 'string' && /^\d{1,20}$/.test(eventId) ? eventId : undefined;
}

function describe(error: unknown, file: string | undefined): string {
  if (error instanceof SvcError) return `${error.message} (${error.code})`;
  const reason = (error as NodeJS.ErrnoException).code ?? 'unexpected error';
  return `${file === undefined ? 'standard input' : `"${file}"`} cannot be read (${reason})`;
}
