import { SvcError } from '../../ground/errors.ts';
import { optionsProblem } from '../../ground/names.ts';
import { isolate } from '../../observe/otel-api.ts';
import { createDecoder, splitRecord } from '../../serialize/avro/avro.ts';
import type { LargeNumbers } from '../../serialize/avro/exact-types.ts';
import { createSchemaRegistry, type SchemaRegistryOptions } from './schema-registry.ts';

export type { SchemaRegistryOptions };

/** Reads record values in Confluent's wire format, from svc or any other producer. */
export interface AvroReader {
  /**
   * Resolves with the envelope as in JSON: times as ISO 8601, and a payload in a string parsed. Fetches each schema once.
   *
   * @throws SvcError `SVC_SERIALIZE_NOT_AVRO` for other bytes, `SVC_SERIALIZE_SCHEMA_REFUSED` for an id that the registry does
   * not know, `SVC_SERIALIZE_REGISTRY_AWAY` if the registry does not answer.
   */
  read<T = unknown>(value: Uint8Array): Promise<T>;
}

type Decoder = (bytes: Buffer) => unknown;

export interface AvroReaderOptions extends SchemaRegistryOptions {
  /** The form of a `long` above the safe integers of JavaScript: text or BigInt. Smaller ones are numbers. Default: `text`. */
  readonly largeNumbers?: LargeNumbers | undefined;
}

const optionNames: readonly (keyof AvroReaderOptions)[] = [
  ...(['url', 'username', 'password', 'token', 'tokenFile', 'caFile', 'timeoutMs', 'largeNumbers'] as const),
];

const largeNumberForms: readonly LargeNumbers[] = ['text', 'bigint'];

/**
 * Creates a reader of Avro records. Install the package `avsc`.
 *
 * @throws SvcError `SVC_ADAPTERS_OPTIONS` for invalid options
 */
export function createAvroReader(options: AvroReaderOptions): AvroReader {
  const problem = optionsProblem(options, optionNames);
  if (problem !== undefined) throw wrong(problem);
  const { url, largeNumbers } = options;
  if (typeof url !== 'string') throw wrong('url must be a string, such as https://registry.example.com:8081');
  if (largeNumbers !== undefined && !largeNumberForms.includes(largeNumbers))
    throw wrong(`largeNumbers must be one of ${largeNumberForms.join(', ')}`);
  const registry = createSchemaRegistry(options);
  const decoders = new Map<number, Promise<Decoder>>();

  function decoderOf(id: number): Promise<Decoder> {
    let decoder = decoders.get(id);
    if (decoder === undefined) {
      decoder = isolate(() => registry.schemaOf(id)).then((schema) => createDecoder(schema, largeNumbers));
      decoders.set(id, decoder);
      // The next read asks again.
      decoder.catch(() => decoders.delete(id));
    }
    return decoder;
  }

  return {
    async read<T>(value: Uint8Array) {
      const { id, body } = splitRecord(Buffer.from(value.buffer, value.byteOffset, value.byteLength));
      return (await decoderOf(id))(body) as T;
    },
  };
}

function wrong(what: string): SvcError {
  return new SvcError('SVC_ADAPTERS_OPTIONS', `createAvroReader: ${what}`);
}
