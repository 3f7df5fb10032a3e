// schema-registry/: a registry with Confluent's API, behind the port of `serialize/avro/schema-registry.ts`.

import { SvcError } from '../../ground/errors.ts';
import { readBounded } from '../../ground/files.ts';
import { askJson, type JsonAnswer } from '../../ground/http.ts';
import type { SchemaRegistry, Subject } from '../../serialize/avro/schema-registry.ts';

export interface SchemaRegistryOptions {
  /** Base URL of the API, such as `https://registry.example.com:8081`, with or without a path. */
  readonly url: string;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  /** Sent as a bearer token. */
  readonly token?: string | undefined;
  /** File with the token, read at each request. */
  readonly tokenFile?: string | undefined;
  /** PEM file of the authorities to trust. Default: the authorities that Node trusts. */
  readonly caFile?: string | undefined;
  /** Time limit of each request in milliseconds. Default: 5000. */
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
      throw awayError(address, 'it returns no schema id: is this a schema registry?');
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
        throw awayError(address, 'it returns no compatibility: is this a schema registry?');
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
        throw awayError(address, 'it returns no schema: is this a schema registry?');
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

/** The registry gave no usable answer. The schema may be fine. */
function awayError(address: string, why: string): SvcError {
  return new SvcError('SVC_SERIALIZE_REGISTRY_AWAY', `schema registry at ${address}: ${why}`);
}

/** One line for an operator. The text of an answer may quote a schema, and is never shown. */
function answerError({ status }: JsonAnswer, address: string, subject: string): SvcError {
  const refused = refusalOf(status, subject);
  if (refused !== undefined)
    return new SvcError('SVC_SERIALIZE_SCHEMA_REFUSED', `schema registry at ${address}: ${refused}`);
  return awayError(address, awayWhy(status, subject));
}

function refusalOf(status: number, subject: string): string | undefined {
  switch (status) {
    case 404:
      return `subject ${subject} does not have this schema: register it, or set svc.serde.auto-register: true`;
    case 409:
      return `the schema is not compatible with subject ${subject} (409): change the schema, or the compatibility of the subject`;
    case 422:
      return `it does not accept the schema of subject ${subject} as an Avro schema (422)`;
    default:
      return undefined;
  }
}

function awayWhy(status: number, subject: string): string {
  if (status === 401)
    return 'it needs other credentials (401): correct svc.serde.schema-registry-username and -password, or the token';
  if (status === 403) return `the credentials have no permission on ${subject} (403)`;
  if (status >= 300 && status < 400)
    return `it answers with a redirect (${status}), which svc does not follow: correct the address`;
  return `it answers with status ${status}`;
}

/** The answer is missing or incomplete. */
function transportError(thrown: unknown, address: string): SvcError {
  const { code } = thrown as NodeJS.ErrnoException;
  const word = typeof code === 'string' && /^\w{1,60}$/.test(code) ? code : 'unknown error';
  return awayError(address, whyOf(word));
}

function whyOf(code: string): string {
  if (code === 'TIMEOUT') return 'it did not answer in time';
  if (code === 'TOO_LARGE') return 'its response is too large for a schema';
  if (code === 'NOT_JSON') return 'its response is not JSON: is this a schema registry?';
  if (code === 'ERR_INVALID_CHAR') return 'the credentials have characters that HTTP headers do not allow';
  if (/CERT|SIGNATURE|SELF_SIGNED|ERR_TLS/.test(code))
    return `its certificate is not trusted (${code}): add its authority to svc.serde.schema-registry-ca-file`;
  return `it cannot be reached (${code})`;
}
