// s3-backup/: a backup in S3, and the way back from there.

import { createHash, getFips, randomUUID } from 'node:crypto';
import { pipeline, Readable, Transform } from 'node:stream';
import { crc32 } from 'node:zlib';
import { clock } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import { type OwnS3Client, ownS3Client } from '../../ground/own-parts.ts';
import { createSendSlots } from '../../publish/broker.ts';
import type { RecoverySource, StoredEvent, Unreadable } from '../../publish/recovery-source.ts';
import {
  type BackupEvent,
  backupName,
  decodeEvent,
  decodeRecord,
  type EventBackupStrategy,
  encodeRecord,
  encodeRoute,
} from '../../publish/tier.ts';

type S3Store = Awaited<ReturnType<typeof openS3Store>>;

/** Stores events, reads them again for a recovery, and tries whether the bucket takes them. */
export const s3Backup = { open: createS3Backup, source: createS3Source, probe: probeS3 };

/** Name of the metadata with topic, key and headers, in Base64, because metadata is ASCII. */
const routeMetadata = 'svc-route';
/** S3 accepts 2 KB of metadata. A longer route is stored with the event as a record. */
const maxRouteLength = 1_800;

/** The number of sockets of the SDK. A request that waits for a socket would spend its time limit there. */
const maxRequests = 50;
/** The caller has given up by then, see `EventBackupStrategy`. */
const longestWaitMs = 30_000;

/**
 * Events as objects, `<prefix>/yyyy/MM/dd/<eventId>.json` by the UTC day of the backup. An existing object is the same event,
 * and stays. The AWS SDK is loaded at the first event.
 */
function createS3Backup(settings: S3Settings): EventBackupStrategy {
  const requests = createSendSlots(maxRequests);
  let opening: Promise<S3Store> | undefined;

  function open(): Promise<S3Store> {
    opening ??= openS3Store(settings).catch((error: unknown) => {
      opening = undefined;
      throw error;
    });
    return opening;
  }

  return {
    name: `S3 bucket ${settings.bucket}`,
    async store(event) {
      const store = await open();
      const route = encodeRoute(event).toString('base64');
      const fits = route.length <= maxRouteLength;
      const body = fits ? event.value : encodeRecord(event);
      if (body.length > maxObjectBytes) throw tooLarge(settings.bucket, body.length);
      const sinceMs = clock.monotonic();
      await new Promise<void>((resolve) => requests.acquire(resolve));
      try {
        if (clock.monotonic() - sinceMs > longestWaitMs) throw tooSlow(settings.bucket);
        await store.put(keyOf(settings.prefix, event), body, fits ? { [routeMetadata]: route } : {});
      } finally {
        requests.release();
      }
    },
    async close() {
      (await opening)?.close();
    },
  };
}

/**
 * Stores a probe that no recovery reads, and deletes it. Rejects with one line if the bucket refuses it. Resolves with its key
 * if deleting is not allowed, so that it stays.
 */
async function probeS3(settings: S3Settings): Promise<string | undefined> {
  const store = await openS3Store(settings);
  const key = `${folderOf(settings.prefix)}svc-check/${randomUUID()}`;
  try {
    await store.put(key, Buffer.from(key), {});
    return await store.delete(key).then(
      () => undefined,
      () => key,
    );
  } finally {
    store.close();
  }
}

/** An object of this size could not be read again. */
function tooLarge(bucket: string, bytes: number): SvcError {
  const message = `an event of ${bytes} bytes is more than svc stores in S3 bucket "${bucket}" in one piece (${maxObjectBytes} bytes)`;
  return new SvcError('SVC_ADAPTERS_BACKUP_FULL', message);
}

function tooSlow(bucket: string): SvcError {
  const message = `S3 bucket "${bucket}" is too slow for the events`;
  return new SvcError('SVC_ADAPTERS_BACKUP_FAILED', message);
}

function keyOf(prefix: string, { eventId, backedUpAt }: BackupEvent): string {
  const day = new Date(backedUpAt).toISOString().slice(0, 10).replaceAll('-', '/');
  return `${folderOf(prefix)}${day}/${backupName(eventId)}.json`;
}

/** Without a leading slash and without `..`, which tools that copy a bucket to files would follow. */
function folderOf(prefix: string): string {
  const parts = prefix.split('/').filter((part) => part !== '' && part !== '.' && part !== '..');
  return parts.length === 0 ? '' : `${parts.join('/')}/`;
}

const recovered = 'recovered/';
const atOnce = 16;
const batchBytes = 16 * 1024 * 1024;
/** In one run. */
const maxKeys = 1_000_000;
/** S3's limit. It counts bytes, and each character has at least one. */
const longestKey = 1_024;
/** A recovery sends thousands of requests. One refusal of a busy store must not end it. */
const attempts = 3;

interface Entry {
  readonly key: string;
  /** From the list. Further bytes are not read. */
  readonly bytes: number;
  /** Why it is not read. */
  readonly reason: string | undefined;
}

/** The objects of an S3 backup, oldest day first. Handled ones move to `<prefix>/recovered/`. A bucket has no lock. */
function createS3Source(settings: S3Settings): RecoverySource {
  const folder = folderOf(settings.prefix);
  let store: S3Store | undefined;
  /** The content that was read. Another content under the same key was not sent, so it is not moved. */
  const etags = new WeakMap<StoredEvent, string | undefined>();

  async function* listed(): AsyncGenerator<Entry> {
    for await (const { Key: key, Size: size } of (store as S3Store).list(folder)) {
      if (typeof key !== 'string' || !key.endsWith('.json') || key.startsWith(folder + recovered)) continue;
      const bytes = typeof size === 'number' && size >= 0 ? size : maxObjectBytes;
      yield { key, bytes: Math.min(bytes, maxObjectBytes), reason: whyNot(key, bytes) };
    }
  }

  /** A store that lists foreign keys would have them moved or deleted. */
  function whyNot(key: string, bytes: number): string | undefined {
    const parts = key.split('/');
    if (!key.startsWith(folder) || parts.includes('..') || parts.includes('.') || key.length > longestKey)
      return 'it is not a key of this backup';
    return bytes > maxObjectBytes ? 'it is larger than any event' : undefined;
  }

  async function readEvent({ key, bytes, reason }: Entry): Promise<StoredEvent | Unreadable> {
    if (reason !== undefined) return { place: key, reason };
    const object = await (store as S3Store).get(key, bytes);
    if (typeof object === 'string') return { place: key, reason: object };
    const { body, metadata } = object;
    const encoded = metadata[routeMetadata];
    const route = encoded === undefined ? undefined : Buffer.from(encoded, 'base64').toString();
    const record = route === undefined ? decodeRecord(body.toString(), key) : undefined;
    const event = record ?? decodeEvent(body, route, key);
    if (event === undefined) return { place: key, reason: 'it holds no event' };
    etags.set(event, object.etag);
    return event;
  }

  return {
    name: `S3 bucket ${settings.bucket}`,
    async open() {
      store = await openS3Store({ ...settings, attempts });
    },
    async count() {
      let count = 0;
      for await (const _ of listed()) count++;
      return count;
    },
    async *read(size) {
      // Lists all keys first, because moved objects would shift the pages of the list.
      const all = new Map<string, Entry>();
      let isCut = false;
      for await (const entry of listed()) {
        isCut = all.size >= maxKeys;
        if (isCut) break;
        all.set(entry.key, entry);
      }
      for (const entries of inBatches(all.values(), Math.min(size, atOnce))) {
        const found = await Promise.all(entries.map(readEvent));
        yield {
          events: found.filter((one): one is StoredEvent => 'value' in one),
          unreadable: found.filter((one): one is Unreadable => !('value' in one)),
        };
      }
      const reason = `there are more than ${maxKeys} objects: run the command again for the rest`;
      if (isCut) yield { events: [], unreadable: [{ place: folder, reason }] };
    },
    async done(events) {
      await Promise.all(
        events.map((event) => {
          const to = folder + recovered + event.place.slice(folder.length);
          return (store as S3Store).move(event.place, to, etags.get(event));
        }),
      );
    },
    async close() {
      store?.close();
    },
  };
}

/** Batches of at most `most` entries and `batchBytes`. A larger entry comes alone. */
function* inBatches(entries: Iterable<Entry>, max: number): Generator<Entry[]> {
  let batch: Entry[] = [];
  let bytes = 0;
  for (const entry of entries) {
    if (batch.length > 0 && (batch.length >= max || bytes + entry.bytes > batchBytes)) {
      yield batch;
      batch = [];
      bytes = 0;
    }
    batch.push(entry);
    bytes += entry.bytes;
  }
  if (batch.length > 0) yield batch;
}

/** Limit for an object: as large as an event in the local backup. */
const maxObjectBytes = 128 * 1024 * 1024;
/** Limit for other answers: a page of a list has at most a thousand keys of a kilobyte. */
const maxAnswerBytes = 16 * 1024 * 1024;

/** The client reports its name. */
class AnswerTooLarge extends Error {
  override readonly name = 'AnswerTooLarge';
}

/** At most `maxBytes` of a body, whatever its length says. */
async function readBody(body: AsyncIterable<Uint8Array>, maxBytes: number): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  // Leaving the loop ends the connection.
  for await (const piece of body) {
    bytes += piece.length;
    if (bytes > maxBytes) throw new AnswerTooLarge();
    pieces.push(piece);
  }
  return Buffer.concat(pieces, bytes);
}

/** The same limit for a stream that the SDK reads to its end. */
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
  /** Default: the region that the AWS SDK finds. */
  readonly region?: string | undefined;
  /** A compatible store. Its buckets are in the path. */
  readonly endpoint?: string | undefined;
  /** Time limit for the answer to one request. Default: 5 s. */
  readonly timeoutMs?: number | undefined;
  /** Tries of a request with a transient failure, such as 503. Default: 1, because the next strategy is the retry. */
  readonly attempts?: number | undefined;
  /** Called once if the store refuses the checksums of the SDK. Later requests send no checksum. */
  readonly onNoChecksums?: ((message: string) => void) | undefined;
}

interface S3Object {
  readonly body: Buffer;
  readonly metadata: Readonly<Record<string, string>>;
  /** Identifies the content of the key. */
  readonly etag: string | undefined;
}

/** The part of `@aws-sdk/client-s3` that svc uses. */
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

/** The requests of svc. They reject with a one-line `SvcError`. */
async function openS3Store(settings: S3Settings) {
  const { bucket: Bucket, timeoutMs = usualTimeoutMs, attempts = 1 } = settings;
  const vendor = await load();
  const own = ownS3Client();
  let client: OwnS3Client & Partial<Client> = own ?? makeClient(vendor, settings, true);
  let isConditional = true;
  let hasChecksums = true;

  /** Calls `make` for each client, because sending changes a command. `means`: another header that the store may not know. */
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

  /** The old client closes after its requests in flight. */
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

  /**
   * `exists`: the key has an object already, which stays. Rejects if the answer does not prove that the store has the object,
   * because an endpoint may be any server.
   */
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
      // Older compatible stores have no conditional put. Event ids are unique anyway.
      if (nameOf(error) === 'NotImplemented') {
        if (isConditional) {
          isConditional = false;
          return put(key, Body, Metadata);
        }
        // Another header was the reason; the answer does not say which.
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
    /** A text says why this object cannot be read while others can. Holds at most `maxBytes` in memory. */
    async get(key: string, maxBytes = maxObjectBytes): Promise<S3Object | string> {
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
    /** The list of the store, unchecked. */
    async *list(prefix: string): AsyncGenerator<Listed> {
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
    /** Does nothing if the object is gone, because another process has moved it. An object with another ETag stays. */
    async move(from: string, to: string, CopySourceIfMatch?: string): Promise<void> {
      try {
        const CopySource = [Bucket, ...from.split('/')].map(encodeURIComponent).join('/');
        await send(() => new vendor.CopyObjectCommand({ Bucket, Key: to, CopySource, CopySourceIfMatch }));
        await send(() => new vendor.DeleteObjectCommand({ Bucket, Key: from }));
      } catch (error) {
        if (nameOf(error) !== 'NoSuchKey' && statusOf(error) !== 412) orSvcError(error);
      }
    },
    async delete(key: string): Promise<void> {
      await send(() => new vendor.DeleteObjectCommand({ Bucket, Key: key })).catch(orSvcError);
    },
    close: (): void => void (own === undefined && client.destroy?.()),
  };
}

function makeClient(vendor: Vendor, settings: S3Settings, hasChecksums: boolean): Client {
  const { region, endpoint, timeoutMs = usualTimeoutMs, attempts = 1 } = settings;
  const client = new vendor.S3Client({
    ...(region !== undefined && { region }),
    // A compatible store has no region, but the signature needs one.
    ...(endpoint !== undefined && { endpoint, forcePathStyle: true, region: region ?? 'us-east-1' }),
    ...(!hasChecksums && withoutChecksums),
    maxAttempts: attempts,
    requestHandler: { connectionTimeout: Math.min(timeoutMs, 2_000), requestTimeout: timeoutMs },
  });
  // The SDK reads all of an answer into memory, whatever its size.
  client.middlewareStack.add(boundAnswers, { step: 'deserialize', priority: 'low' });
  return client;
}

/** Only for commands that S3 requires them for. */
const withoutChecksums = {
  requestChecksumCalculation: 'WHEN_REQUIRED',
  responseChecksumValidation: 'WHEN_REQUIRED',
} as const;

/**
 * Compatible stores of before 2025 do not know `x-amz-checksum-crc32`, which newer SDKs send with each object. Some name it,
 * others report an unexpected header or content.
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

/** `get` bounds the body of an object. */
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

/** By the name of the error, as in S3 and compatible stores. Its message can hold parts of the request. */
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

/** The answer claimed that the object exists. */
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

/** One object in the list of a store. Untrusted. */
interface Listed {
  readonly Key?: string;
  readonly Size?: number;
}

interface Page {
  readonly Contents?: readonly Listed[];
  readonly NextContinuationToken?: string;
}

/** Ten million objects, at a thousand a page. */
const maxPages = 10_000;

/** A list that repeats, or does not end. */
class EndlessList extends Error {
  override readonly name = 'EndlessList';
}

/** The pages of a list. It always ends, whatever tokens come. */
async function* listPages(page: (token: string | undefined) => Promise<Page>): AsyncGenerator<Page> {
  let token: string | undefined;
  // One kept token detects a cycle. It is replaced at ever longer distances.
  let kept: string | undefined;
  let keptUntil = 1;
  for (let count = 1; ; count++) {
    const found = await page(token);
    yield found;
    token = found.NextContinuationToken;
    if (token === undefined || token === '') return;
    if (token === kept || count >= maxPages) throw new EndlessList();
    if (count < keptUntil) continue;
    kept = token;
    keptUntil *= 2;
  }
}

/** The answer of S3 and compatible stores to a put. */
interface PutAnswer {
  readonly ETag?: string | undefined;
  readonly ChecksumCRC32?: string | undefined;
  readonly ServerSideEncryption?: string | undefined;
}

/**
 * Whether the answer proves that a store has these bytes: a wrong endpoint may say 200 as well. The ETag is their MD5, except
 * for keys of AWS KMS, which the answer shows. With newer SDKs, the store compares a checksum. Stores with other ETags get one
 * more request.
 */
function provesStored({ ETag, ChecksumCRC32, ServerSideEncryption }: PutAnswer, body: Buffer): boolean {
  if (ETag === undefined || ETag === '') return false;
  if (ServerSideEncryption?.startsWith('aws:kms')) return true;
  const checksum = Buffer.alloc(4);
  checksum.writeUInt32BE(crc32(body));
  if (ChecksumCRC32 === checksum.toString('base64')) return true;
  // FIPS mode has no MD5.
  if (getFips() === 1) return false;
  return ETag.replaceAll('"', '').toLowerCase() === createHash('md5').update(body).digest('hex');
}
