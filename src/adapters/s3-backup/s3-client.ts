import { createHash, getFips } from 'node:crypto';
import { pipeline, Readable, Transform } from 'node:stream';
import { crc32 } from 'node:zlib';
import { SvcError } from '../../ground/errors.ts';
import { type OwnS3Client, ownS3Client } from '../../ground/own-parts.ts';

/** An object: as large as an event that the local backup takes. */
export const maxObjectBytes = 128 * 1024 * 1024;
/** Any other answer: a page of a list has a thousand keys of a kilobyte at most. */
export const maxAnswerBytes = 16 * 1024 * 1024;

/** More came than anybody may send. Its name is what the client makes of it. */
class AnswerTooLarge extends Error {
  override readonly name = 'AnswerTooLarge';
}

/** At most so many bytes of a body, whatever its length says. */
async function readBody(body: AsyncIterable<Uint8Array>, maxBytes: number): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  // Leaving the loop ends the connection that the rest would come over.
  for await (const piece of body) {
    bytes += piece.length;
    if (bytes > maxBytes) throw new AnswerTooLarge();
    pieces.push(piece);
  }
  return Buffer.concat(pieces, bytes);
}

/** The same for who reads the stream to its end by himself. */
function limitBytes(body: Readable, maxBytes: number): Readable {
  let bytes = 0;
  const limited = new Transform({
    transform(piece: Buffer, _encoding, done) {
      bytes += piece.length;
      if (bytes > maxBytes) done(new AnswerTooLarge());
      else done(null, piece);
    },
  });
  // Ends the connection with the reading, and the reading with the connection.
  pipeline(body, limited, () => {});
  return limited;
}

export interface S3Settings {
  readonly bucket: string;
  readonly prefix: string;
  /** Default: as the AWS SDK finds it. */
  readonly region?: string | undefined;
  /** A compatible store; buckets are then named in the path. */
  readonly endpoint?: string | undefined;
  /** Longest wait for the answer to one request. Default 5 s. */
  readonly timeoutMs?: number | undefined;
  /** How often a request is tried that fails for now: no answer, 503 and the like. Default 1: the next strategy is the retry. */
  readonly attempts?: number | undefined;
  /** Told once, where the store refuses the checksums that the SDK sends, and is sent none from then on. */
  readonly onNoChecksums?: ((message: string) => void) | undefined;
}

interface S3Object {
  readonly body: Buffer;
  readonly metadata: Readonly<Record<string, string>>;
  /** Tells this content of the key from another one. */
  readonly etag: string | undefined;
}

/** The few requests that svc makes. They reject with a one-line `SvcError`. */
export interface S3Store {
  /**
   * `exists`: an object of this key was there already, and is untouched. Rejects where the answer does not show that the store has
   * it now: anything may listen at an endpoint.
   */
  put(key: string, body: Buffer, metadata: Record<string, string>): Promise<'stored' | 'exists'>;
  /** A text says why this object cannot be had, while others can. More than `maxBytes` of it is never in memory. */
  get(key: string, maxBytes?: number): Promise<S3Object | string>;
  /** What the store says is below a prefix, as it says it. */
  list(prefix: string): AsyncIterable<Listed>;
  delete(key: string): Promise<void>;
  /** An object that is gone has been moved by somebody else. One with another ETag than the given one has been written anew, and stays. */
  move(from: string, to: string, etag?: string): Promise<void>;
  close(): void;
}

/** The part of `@aws-sdk/client-s3` that is used. */
interface Vendor {
  readonly S3Client: new (options: object) => Client;
  readonly PutObjectCommand: Command;
  readonly GetObjectCommand: Command;
  readonly HeadObjectCommand: Command;
  readonly ListObjectsV2Command: Command;
  readonly CopyObjectCommand: Command;
  readonly DeleteObjectCommand: Command;
}
type Command = new (input: object) => object;
interface Client extends OwnS3Client {
  destroy(): void;
  readonly middlewareStack: {
    add(
      middleware: (next: Handler, context: { commandName?: string }) => Handler,
      where: { step: 'deserialize'; priority: 'low' },
    ): void;
  };
}
type Handler = (args: unknown) => Promise<{ response: { statusCode: number; body?: unknown } }>;

const packageName = '@aws-sdk/client-s3';
const usualTimeoutMs = 5_000;

export async function openS3Store(settings: S3Settings): Promise<S3Store> {
  const { bucket: Bucket, timeoutMs = usualTimeoutMs, attempts = 1 } = settings;
  const vendor = await load();
  const own = ownS3Client();
  let client: OwnS3Client & Partial<Client> = own ?? makeClient(vendor, settings, true);
  let isConditional = true;
  let hasChecksums = true;

  /** `make` anew for each client: a command is changed by its way out. `means`: another header that the store may not know. */
  async function send<Answer>(make: () => object, means?: 'condition'): Promise<Answer> {
    const isWithChecksums = hasChecksums;
    try {
      return await sendOnce<Answer>(make());
    } catch (error) {
      const isAbout = refusesChecksums(error) || (nameOf(error) === 'NotImplemented' && means === undefined);
      if (!isWithChecksums || !isAbout) throw error;
      if (own !== undefined) throw failed(settings, checksumRefused(true));
      if (hasChecksums) dropChecksums();
      return sendOnce<Answer>(make());
    }
  }

  async function sendOnce<Answer>(command: object): Promise<Answer> {
    // The handler's own limits end with the headers of an answer.
    return (await client.send(command, { abortSignal: AbortSignal.timeout(timeoutMs * attempts) })) as Answer;
  }

  /** Requests that are under way with the old client end there. */
  function dropChecksums(): void {
    hasChecksums = false;
    const old = client;
    client = makeClient(vendor, settings, false);
    setTimeout(() => old.destroy?.(), timeoutMs * attempts).unref();
    settings.onNoChecksums?.(failed(settings, checksumRefused(false)).message);
  }

  const orSvcError = (error: unknown): never => {
    throw toSvcError(error, settings, timeoutMs);
  };

  async function isThere(Key: string, bytes?: number): Promise<boolean> {
    try {
      const head = await send<{ ETag?: string; ContentLength?: number }>(
        () => new vendor.HeadObjectCommand({ Bucket, Key }),
      );
      return Boolean(head.ETag) && (bytes === undefined || head.ContentLength === bytes);
    } catch (error) {
      if (statusOf(error) === undefined) return orSvcError(error);
      return false;
    }
  }

  async function put(
    key: string,
    Body: Buffer,
    Metadata: Record<string, string>,
  ): Promise<'stored' | 'exists'> {
    const input = { Bucket, Key: key, Body, Metadata, ContentType: 'application/json' };
    try {
      const answer = await send<PutAnswer>(
        () => new vendor.PutObjectCommand(isConditional ? { ...input, IfNoneMatch: '*' } : input),
        'condition',
      );
      if (!provesStored(answer, Body) && !(await isThere(key, Body.length))) throw noStore(settings, 200);
      return 'stored';
    } catch (error) {
      if (statusOf(error) === 412) {
        if (await isThere(key)) return 'exists';
        throw noStore(settings, 412);
      }
      // Older compatible stores know no conditional put; event ids are unique anyway.
      if (nameOf(error) === 'NotImplemented') {
        if (isConditional) {
          isConditional = false;
          return put(key, Body, Metadata);
        }
        // It was not that: it does not say which header it means.
        if (hasChecksums && own === undefined) {
          dropChecksums();
          isConditional = true;
          return put(key, Body, Metadata);
        }
      }
      return orSvcError(error);
    }
  }

  return {
    put,
    async get(key, maxBytes = maxObjectBytes) {
      try {
        const { Body, ContentLength, Metadata, ETag } = await send<{
          Body: Readable;
          ContentLength?: number;
          ETag?: string;
          Metadata?: Record<string, string>;
        }>(() => new vendor.GetObjectCommand({ Bucket, Key: key }));
        if ((ContentLength ?? 0) > maxBytes) {
          Body.destroy();
          throw new AnswerTooLarge();
        }
        return { body: await readBody(Body, maxBytes), metadata: Metadata ?? {}, etag: ETag };
      } catch (error) {
        return ofOneObject[nameOf(error)] ?? orSvcError(error);
      }
    },
    async *list(prefix) {
      const page = (token: string | undefined): Promise<Page> => {
        const input = { Bucket, Prefix: prefix, ...(token !== undefined && { ContinuationToken: token }) };
        return send<Page>(() => new vendor.ListObjectsV2Command(input));
      };
      try {
        for await (const { Contents } of listPages(page)) yield* Contents ?? [];
      } catch (error) {
        orSvcError(error);
      }
    },
    async move(from, to, CopySourceIfMatch) {
      try {
        const CopySource = [Bucket, ...from.split('/')].map(encodeURIComponent).join('/');
        await send(() => new vendor.CopyObjectCommand({ Bucket, Key: to, CopySource, CopySourceIfMatch }));
        await send(() => new vendor.DeleteObjectCommand({ Bucket, Key: from }));
      } catch (error) {
        if (nameOf(error) !== 'NoSuchKey' && statusOf(error) !== 412) orSvcError(error);
      }
    },
    async delete(key) {
      await send(() => new vendor.DeleteObjectCommand({ Bucket, Key: key })).catch(orSvcError);
    },
    close: () => void (own === undefined && client.destroy?.()),
  };
}

function makeClient(vendor: Vendor, settings: S3Settings, hasChecksums: boolean): Client {
  const { region, endpoint, timeoutMs = usualTimeoutMs, attempts = 1 } = settings;
  const client = new vendor.S3Client({
    ...(region !== undefined && { region }),
    // A compatible store has no region of its own, but the signature needs one.
    ...(endpoint !== undefined && { endpoint, forcePathStyle: true, region: region ?? 'us-east-1' }),
    ...(!hasChecksums && withoutChecksums),
    maxAttempts: attempts,
    requestHandler: { connectionTimeout: Math.min(timeoutMs, 2_000), requestTimeout: timeoutMs },
  });
  // The SDK reads all of an answer into memory, whatever its size.
  client.middlewareStack.add(boundAnswers, { step: 'deserialize', priority: 'low' });
  return client;
}

/** For commands that S3 itself requires none of. */
const withoutChecksums = {
  requestChecksumCalculation: 'WHEN_REQUIRED',
  responseChecksumValidation: 'WHEN_REQUIRED',
} as const;

/**
 * Compatible stores of before 2025 know no `x-amz-checksum-crc32`, which newer SDKs send with each object. Some name it, others say
 * that a header or the content is not as they know it.
 */
function refusesChecksums(error: unknown): boolean {
  const status = statusOf(error);
  if (status === undefined || status < 400 || status === 401 || status === 404 || status === 412)
    return false;
  const { message, name } = error as Error;
  return /checksum|crc32/i.test(`${name} ${message}`) || name === 'XAmzContentSHA256Mismatch';
}

function checksumRefused(isOwn: boolean): string {
  const set = 'AWS_REQUEST_CHECKSUM_CALCULATION=WHEN_REQUIRED';
  return isOwn
    ? `it refuses the checksum of the SDK: set requestChecksumCalculation: 'WHEN_REQUIRED' for the client of registerS3Client, or ${set}`
    : `it refuses the checksum of the SDK, and gets no checksum from now on: set ${set} to save the first request`;
}

/** The body of an object is left to `get`. */
function boundAnswers(next: Handler, { commandName }: { commandName?: string }): Handler {
  return async (args) => {
    const answer = await next(args);
    const { response } = answer;
    const isObject = commandName === 'GetObjectCommand' && response.statusCode < 300;
    if (!isObject && response.body instanceof Readable)
      response.body = limitBytes(response.body, maxAnswerBytes);
    return answer;
  };
}

async function load(): Promise<Vendor> {
  try {
    return (await import(packageName)) as Vendor;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'ERR_MODULE_NOT_FOUND' && code !== 'MODULE_NOT_FOUND') throw error;
    throw new SvcError(
      'SVC_ADAPTERS_PACKAGE_MISSING',
      `the S3 backup needs the package ${packageName}: npm install ${packageName}`,
    );
  }
}

/** By the name of the error, as S3 and its relatives give it. Its own message can hold parts of the request. */
function toSvcError(error: unknown, settings: S3Settings, timeoutMs: number): SvcError {
  if (error instanceof SvcError) return error;
  const name = nameOf(error);
  const says = hints[name] ?? `the request failed (${name}${statusOf(error) ? `, ${statusOf(error)}` : ''})`;
  return failed(settings, says.replace('{timeout}', `${timeoutMs} ms`));
}

function failed({ bucket, endpoint }: S3Settings, says: string): SvcError {
  const where = endpoint === undefined ? `bucket "${bucket}"` : `bucket "${bucket}" at ${endpoint}`;
  return new SvcError('SVC_ADAPTERS_BACKUP_FAILED', `S3 ${where}: ${says}`);
}

/** It said that it has the object. */
function noStore(settings: S3Settings, status: 200 | 412): SvcError {
  return failed(
    settings,
    `the server there answered ${status}, but shows no object: check svc.broker.backup.s3-endpoint, and that the credentials have the permission s3:GetObject`,
  );
}

const noAnswer = 'no answer within {timeout}';
const credentials =
  'the credentials were refused: check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the role';
const hints: Readonly<Record<string, string>> = {
  NoSuchBucket: 'the bucket does not exist: create it, or correct svc.broker.backup.s3-bucket',
  AccessDenied:
    'access denied: the credentials need the permission s3:PutObject (to restore also s3:ListBucket, s3:GetObject, s3:DeleteObject)',
  InvalidAccessKeyId: credentials,
  SignatureDoesNotMatch: credentials,
  CredentialsProviderError:
    'no credentials found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile or a role',
  RequestTimeTooSkewed: 'the clock of this machine is wrong',
  PermanentRedirect: 'the bucket is in another region: set svc.broker.backup.s3-region',
  InsufficientStorage: 'the store is full',
  TimeoutError: noAnswer,
  AbortError: noAnswer,
  AnswerTooLarge: 'its response is too large for S3',
  EndlessList: 'its list of objects does not end',
  ECONNRESET: 'the connection was cut',
  ECONNREFUSED: 'nothing listens there: check svc.broker.backup.s3-endpoint',
  ENOTFOUND: 'the host is unknown: check svc.broker.backup.s3-endpoint and s3-region',
};

const ofOneObject: Readonly<Record<string, string>> = {
  NoSuchKey: 'it no longer exists',
  AnswerTooLarge: 'it is larger than the list says, or than any event',
  InvalidObjectState: 'it is in an archive: restore it in S3 first',
};

function nameOf(error: unknown): string {
  const { name, code, Code } = (error ?? {}) as Record<'name' | 'code' | 'Code', unknown>;
  for (const text of [code, Code, name]) if (typeof text === 'string' && text in hints) return text;
  return typeof name === 'string' && /^\w{1,60}$/.test(name) ? name : 'Error';
}

function statusOf(error: unknown): number | undefined {
  return (error as { $metadata?: { httpStatusCode?: number } })?.$metadata?.httpStatusCode;
}

/** What a store lists of one object. Nothing of it is trusted. */
interface Listed {
  readonly Key?: string;
  readonly Size?: number;
}

interface Page {
  readonly Contents?: readonly Listed[];
  readonly NextContinuationToken?: string;
}

/** Ten million objects, at a thousand a page. */
export const mostPages = 10_000;

/** A list that goes round in a circle, or does not end. */
export class EndlessList extends Error {
  override readonly name = 'EndlessList';
}

/** The pages of a list, until it ends; whatever tokens come, it does. */
export async function* listPages(page: (token: string | undefined) => Promise<Page>): AsyncGenerator<Page> {
  let token: string | undefined;
  // A token that comes again is met by one that is kept: it is exchanged at ever longer distances.
  let kept: string | undefined;
  let keptUntil = 1;
  for (let count = 1; ; count++) {
    const found = await page(token);
    yield found;
    token = found.NextContinuationToken;
    if (token === undefined || token === '') return;
    if (token === kept || count >= mostPages) throw new EndlessList();
    if (count < keptUntil) continue;
    kept = token;
    keptUntil *= 2;
  }
}

/** What S3 and its relatives say when they have stored an object. */
interface PutAnswer {
  readonly ETag?: string | undefined;
  readonly ChecksumCRC32?: string | undefined;
  readonly ServerSideEncryption?: string | undefined;
}

/**
 * Whether an answer could only be given by a store that has these bytes: a wrong endpoint says 200 as well. The ETag is their MD5,
 * but for keys of AWS KMS, as the answer says then; newer SDKs have the store compare a checksum. Stores with ETags of their own
 * are asked once more.
 */
function provesStored({ ETag, ChecksumCRC32, ServerSideEncryption }: PutAnswer, body: Buffer): boolean {
  if (ETag === undefined || ETag === '') return false;
  if (ServerSideEncryption?.startsWith('aws:kms')) return true;
  const checksum = Buffer.alloc(4);
  checksum.writeUInt32BE(crc32(body));
  if (ChecksumCRC32 === checksum.toString('base64')) return true;
  // There is no MD5 then.
  if (getFips() === 1) return false;
  return ETag.replaceAll('"', '').toLowerCase() === createHash('md5').update(body).digest('hex');
}
