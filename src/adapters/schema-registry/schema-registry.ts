// schema-registry/: a registry with Confluent's API, behind the port of `serialize/avro/schema-registry.ts`.

import { SvcError } from '../../ground/errors.ts';
import { readBounded } from '../../ground/files/folders.ts';
import { askJson, type JsonAnswer } from '../../ground/http/ask-json.ts';
import type { SchemaRegistry, Subject } from '../../serialize/avro/schema-registry.ts';
import { answerError, awayError, transportError } from './registry-failure.ts';

export interface SchemaRegistryOptions {
  /** Base of the API: `https://registry.example.com:8081`, or with a path. */
  readonly url: string;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  /** Sent as a bearer token. */
  readonly token?: string | undefined;
  /** File that holds the token, read at each request. */
  readonly tokenFile?: string | undefined;
  /** PEM file of the authorities to trust. Default: those that Node trusts. */
  readonly caFile?: string | undefined;
  /** Of each request. Default: 5,000 ms. */
  readonly timeoutMs?: number | undefined;
}

/** Far more than any schema. */
const longestAnswerBytes = 4_194_304;
const media = 'application/vnd.schemaregistry.v1+json';

export function createSchemaRegistry(options: SchemaRegistryOptions): SchemaRegistry {
  const address = options.url.replace(/\/+$/, '');

  async function ask(path: string, body?: object): Promise<JsonAnswer> {
    const headers = { accept: `${media}, application/json`, ...(await authorizationOf(options, address)) };
    const ca =
      options.caFile === undefined ? undefined : await read(options.caFile, address, 'its authorities');
    const method = body === undefined ? 'GET' : 'POST';
    const timeoutMs = options.timeoutMs ?? 5_000;
    try {
      return await askJson({
        ...{ url: `${address}${path}`, method, headers, body, ca, timeoutMs, longestAnswerBytes },
      });
    } catch (error) {
      throw transportError(error, address);
    }
  }

  async function idFrom(path: string, subject: Subject): Promise<number> {
    const answer = await ask(path, schemaBody(subject));
    const id = fieldOf(answer.body, 'id');
    if (answer.status !== 200) throw answerError(answer, address, subject.subject);
    if (typeof id !== 'number' || !Number.isInteger(id) || id < 0 || id > 0xffff_ffff)
      throw awayError(address, 'it gives no id of a schema: is that a schema registry?');
    return id;
  }

  return {
    address,
    register: (subject) => idFrom(`/subjects/${encodeURIComponent(subject.subject)}/versions`, subject),
    lookUp: (subject) => idFrom(`/subjects/${encodeURIComponent(subject.subject)}`, subject),
    async isCompatible(subject) {
      const path = `/compatibility/subjects/${encodeURIComponent(subject.subject)}/versions/latest`;
      const answer = await ask(path, schemaBody(subject));
      if (answer.status === 404) return undefined;
      const isCompatible = fieldOf(answer.body, 'is_compatible');
      if (answer.status !== 200) throw answerError(answer, address, subject.subject);
      if (typeof isCompatible !== 'boolean')
        throw awayError(address, 'it does not say what is compatible: is that a schema registry?');
      return isCompatible;
    },
    async schemaOf(id) {
      const answer = await ask(`/schemas/ids/${id}`);
      const schema = fieldOf(answer.body, 'schema');
      if (answer.status === 404)
        throw new SvcError(
          'SVC_SERIALIZE_SCHEMA_REFUSED',
          `schema registry at ${address}: there is no schema ${id}`,
        );
      if (answer.status !== 200) throw answerError(answer, address, `schema ${id}`);
      if (typeof schema !== 'string')
        throw awayError(address, 'it gives no schema: is that a schema registry?');
      return schema;
    },
  };
}

const schemaBody = ({ schema }: Subject): object => ({ schema, schemaType: 'AVRO' });

async function authorizationOf(
  { username, password, token, tokenFile }: SchemaRegistryOptions,
  address: string,
): Promise<Record<string, string>> {
  if (username !== undefined) {
    const text = Buffer.from(`${username}:${password ?? ''}`).toString('base64');
    return { authorization: `Basic ${text}` };
  }
  const bearer =
    tokenFile === undefined ? token : (await read(tokenFile, address, 'its token')).toString().trim();
  return bearer === undefined ? {} : { authorization: `Bearer ${bearer}` };
}

async function read(file: string, address: string, what: string): Promise<Buffer> {
  try {
    return await readBounded(file);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw awayError(address, `the file with ${what} cannot be read (${code}): ${file}`);
  }
}

function fieldOf(body: unknown, name: string): unknown {
  return typeof body === 'object' && body !== null ? (body as Record<string, unknown>)[name] : undefined;
}
