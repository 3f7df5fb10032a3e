import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { cacheFolder, ensureFolder } from '../../scripts/services/cache.ts';
import { findJava } from '../../scripts/services/kafka-jars.ts';
import { FAST_JVM } from '../../scripts/services/kafka-node.ts';
import { makePythonEnvironment, pythonIn } from '../../scripts/services/python.ts';
import { ensureSchemaRegistry } from '../../scripts/services/schema-registry.ts';

const fastavroVersion = '1.13.1';
const log = (line: string): void => console.error(line);

/** What another library made of a record. */
export interface CopiedRecord {
  /** As JSON. */
  readonly record: Record<string, unknown>;
  /** The same record as that library writes it. */
  readonly body: Buffer;
}

/** A record without its prefix, with the schema of its writer. */
export interface WrittenRecord {
  readonly schema: string;
  readonly body: Buffer;
}

/** Avro for Python, installed once. */
export function ensureFastavro(say: (line: string) => void): Promise<string> {
  const packages = { title: `fastavro ${fastavroVersion}`, install: [`fastavro==${fastavroVersion}`] };
  return ensureFolder(cacheFolder(`fastavro-${fastavroVersion}`), (temporary) =>
    makePythonEnvironment(temporary, packages, say),
  );
}

/** `GenericDatumReader` and `GenericDatumWriter` of Avro for Java, which comes with the registry. */
export async function copyWithJava(records: readonly WrittenRecord[]): Promise<CopiedRecord[]> {
  const libraries = join(await ensureSchemaRegistry(log), 'lib', '*');
  const program = join(import.meta.dirname, 'AvroCopy.java');
  return copyWith(await findJava(), [...FAST_JVM, '-cp', libraries, program], records);
}

/** `schemaless_reader` and `schemaless_writer` of fastavro. */
export async function copyWithPython(records: readonly WrittenRecord[]): Promise<CopiedRecord[]> {
  return copyWith(pythonIn(await ensureFastavro(log)), [join(import.meta.dirname, 'avro_copy.py')], records);
}

function copyWith(
  program: string,
  args: readonly string[],
  records: readonly WrittenRecord[],
): CopiedRecord[] {
  const base64 = (bytes: string | Buffer): string => Buffer.from(bytes as string).toString('base64');
  const input = records.map(({ schema, body }) => `${base64(schema)} ${base64(body)}\n`).join('');
  const { status, stdout, stderr } = spawnSync(program, args, { input, timeout: 60_000, encoding: 'utf8' });
  if (status !== 0) throw new Error(`${program} failed:\n${stderr}`);
  return stdout
    .trim()
    .split('\n')
    .map((line) => {
      const [json = '', body = ''] = line.split(' ');
      return {
        // Python writes NaN and Infinity as they are.
        record: JSON.parse(
          Buffer.from(json, 'base64')
            .toString()
            .replace(/: (NaN|-?Infinity)\b/g, ': null'),
        ),
        body: Buffer.from(body, 'base64'),
      };
    });
}
