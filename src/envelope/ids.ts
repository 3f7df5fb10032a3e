import { closeSync, lstatSync, openSync, readSync } from 'node:fs';
import { hostname, networkInterfaces, tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { threadId } from 'node:worker_threads';
import type { Config } from '../config/config.ts';
import { nodeCrypto } from '../ground/builtins.ts';
import { type Claim, claimsIn, spreadHash } from '../ground/claims.ts';
import { clock } from '../ground/clock.ts';
import { SvcError } from '../ground/errors.ts';
import { bitsBelowMs, maxWorkerId, snowflakeEpochMs } from '../ground/event-fields.ts';
import { makeFolders } from '../ground/files.ts';
import { clientOf } from '../ground/management.ts';
import { logger } from '../observe/logger.ts';
import { isolate } from '../observe/otel-api.ts';

/** Default of `maxBackwardMs`. NTP corrections stay below it; a wrong clock does not. */
const defaultMaxBackwardMs = 10_000;

const idsPerMs = 4096;
/** Beyond any sequence: no further id may carry the last worker id. */
const worksElsewhere = 2 * idsPerMs;
const maxTimestampMs = 2 ** 41 - 1;
const msSize = (maxWorkerId + 1) * idsPerMs;
/** An id is three numbers of six digits, so that it needs no BigInt. Only `low` changes with each id. */
const partSize = 1_000_000;

interface SnowflakeOptions {
  /** 0 to 1023, not in use by another process. */
  readonly workerId: number;
  /** Milliseconds since the epoch. Default: those of the clock. */
  readonly now?: (() => number) | undefined;
  /** `next` throws if the clock steps back further. Smaller steps continue from the last id. Default: 10,000. */
  readonly maxBackwardMs?: number | undefined;
  /** First sequence of a millisecond, 0 to 4,095. Default: random. */
  readonly firstSequence?: (() => number) | undefined;
}

interface Snowflake {
  /**
   * The next id. Throws `SVC_ENVELOPE_CLOCK_MOVED_BACKWARDS` (`ClockMovedBackwardsException`) while the clock is more than
   * `maxBackwardMs` behind its maximum. Throws `SVC_ENVELOPE_CLOCK_OUT_OF_RANGE` outside 2024 to 2093.
   */
  next(): string;
  /** Of the next id. */
  readonly workerId: number;
  /**
   * Applies from the next id, which gets a later millisecond than the last one with another worker id. Throws
   * `SVC_ENVELOPE_WORKER_ID` for one out of range, and keeps the current one.
   */
  useWorkerId(workerId: number): void;
}

/**
 * Makes ids in decimal: 41 bits of milliseconds since 2024, 10 of worker, 12 of sequence. Each is greater than the one before.
 * Never waits: when a millisecond is full, or the clock stepped back a little, ids continue in later milliseconds.
 *
 * The sequence of a millisecond begins at random, so that two processes with one worker id by mistake rarely make the same id. A
 * millisecond ahead of the clock begins at 0, so that it lasts for 4,096 ids. Throws `SVC_ENVELOPE_WORKER_ID` for a worker id out
 * of range.
 */
export function createSnowflake(options: SnowflakeOptions): Snowflake {
  const { now = () => clock.now(), maxBackwardMs = defaultMaxBackwardMs } = options;
  const firstSequence = options.firstSequence ?? randomSequence(createWordSource());
  let workerId = checkWorkerId(options.workerId);
  /** Maximum of the clock. Ids may be ahead of it. */
  let latestMs = Number.NEGATIVE_INFINITY;
  let timestampMs = Number.NEGATIVE_INFINITY;
  let sequence = 0;
  let high = 0;
  let middle = 0;
  let low = 0;
  /** The digits of `high` and `middle` without leading zeros; may be empty. */
  let prefix = '';

  return {
    next,
    get workerId() {
      return workerId;
    },
    useWorkerId(wanted) {
      if (checkWorkerId(wanted) === workerId) return;
      workerId = wanted;
      sequence = worksElsewhere;
    },
  };

  function next(): string {
    const nowMs = now();
    if (nowMs > latestMs) latestMs = nowMs;
    else if (latestMs - nowMs > maxBackwardMs) throw clockMovedBackwards(latestMs - nowMs, maxBackwardMs);
    const elapsedMs = Math.floor(nowMs) - snowflakeEpochMs;
    // Also refuses a clock that returns NaN.
    if (!(elapsedMs <= timestampMs)) start(elapsedMs, firstSequence());
    else if (++sequence < idsPerMs) low++;
    else start(timestampMs + 1, sequence === idsPerMs ? 0 : firstSequence());
    if (low >= partSize) {
      low -= partSize;
      middle++;
      setPrefix();
    }
    return prefix === '' ? String(low) : prefix + sixDigits(low);
  }

  /** `atMs * 2^22 + workerId * 2^12 + from` in three parts: every product stays below 2^53. */
  function start(atMs: number, from: number): void {
    if (!(atMs >= 0 && atMs <= maxTimestampMs)) throw clockOutOfRange();
    const millions = Math.floor(atMs / partSize);
    const rest = (atMs - millions * partSize) * msSize + workerId * idsPerMs + from;
    const carry = Math.floor(rest / partSize);
    const upper = millions * msSize + carry;
    timestampMs = atMs;
    sequence = from;
    low = rest - carry * partSize;
    high = Math.floor(upper / partSize);
    middle = upper - high * partSize;
    setPrefix();
  }

  function setPrefix(): void {
    if (middle === partSize) {
      middle = 0;
      high++;
    }
    if (high > 0) prefix = String(high) + sixDigits(middle);
    else prefix = middle > 0 ? String(middle) : '';
  }
}

function randomSequence(draw: DrawWord): () => number {
  return () => draw() & (idsPerMs - 1);
}

/** `000` to `999`: a lookup is faster than formatting. */
const threeDigits: readonly string[] = Array.from({ length: 1000 }, (_, value) =>
  String(value).padStart(3, '0'),
);

function sixDigits(value: number): string {
  const thousands = Math.floor(value / 1000);
  return (threeDigits[thousands] as string) + (threeDigits[value - thousands * 1000] as string);
}

/** Returns the id, or throws `SVC_ENVELOPE_WORKER_ID`. */
function checkWorkerId(workerId: number): number {
  if (Number.isInteger(workerId) && workerId >= 0 && workerId <= maxWorkerId) return workerId;
  throw new SvcError('SVC_ENVELOPE_WORKER_ID', `workerId must be between 0 and ${maxWorkerId}`);
}

function clockMovedBackwards(backwardMs: number, maxBackwardMs: number): SvcError {
  return new SvcError(
    'SVC_ENVELOPE_CLOCK_MOVED_BACKWARDS',
    `the clock moved backwards by ${backwardMs} ms, more than the ${maxBackwardMs} ms that event ids tolerate`,
    { name: 'ClockMovedBackwardsException' },
  );
}

function clockOutOfRange(): SvcError {
  return new SvcError(
    'SVC_ENVELOPE_CLOCK_OUT_OF_RANGE',
    'event ids need a clock between 2024-01-01 and 2093-09-06',
  );
}

const maxMs = 2 ** 48 - 1;
const maxCounter = 2 ** bitsBelowMs - 1;
/** Random hexadecimal digits of an id: one in the fourth group, twelve in the last, and one to spare. */
const slotDigits = 14;
const slots = 512;

/**
 * Makes UUIDs of version 7 (RFC 9562). They have 48 bits of milliseconds, a counter of 22 bits with a random start (section 6.2,
 * method 1), 52 random bits. Each is greater than the one before, also as text.
 *
 * Never waits or goes back. If the clock steps back, or the counter overflows, ids continue from the last one. `next` throws
 * `SVC_ENVELOPE_CLOCK_OUT_OF_RANGE` for a clock before 1970 or after 10889.
 */
function createUuidV7(): { next(): string } {
  /** `000` to `fff`: a lookup is faster than formatting. */
  const threeDigits = Array.from({ length: 0x1000 }, (_, value) => value.toString(16).padStart(3, '0'));
  const pool = Buffer.alloc((slots * slotDigits) / 2);
  let digits = '';
  let at = slots * slotDigits;
  let timestampMs = Number.NEGATIVE_INFINITY;
  let counter = 0;
  /** The upper 32 bits of the time change about once a minute. */
  let timedMinute = Number.NaN;
  let timeText = '';
  /** `019c5e1f-3c80-7` */
  let prefix = '';

  return { next };

  function next(): string {
    const nowMs = Math.floor(clock.now());
    // Also refuses a clock that returns NaN.
    if (!(nowMs <= timestampMs)) start(nowMs);
    else if (++counter > maxCounter) start(timestampMs + 1);
    const random = takeSlot();
    const upper = threeDigits[counter >>> 10] as string;
    const lower = threeDigits[0x800 | (counter & 0x3ff)] as string;
    return `${prefix}${upper}-${lower}${digits.slice(random, random + 1)}-${digits.slice(random + 1, random + 13)}`;
  }

  function start(atMs: number): void {
    if (!(atMs >= 0 && atMs <= maxMs)) throw clockOutOfRangeOfUuidV7();
    const minute = Math.floor(atMs / 0x10000);
    const rest = atMs - minute * 0x10000;
    if (minute !== timedMinute) {
      timedMinute = minute;
      timeText = minute.toString(16).padStart(8, '0');
    }
    timestampMs = atMs;
    prefix = `${timeText}-${(rest >>> 12).toString(16)}${threeDigits[rest & 0xfff]}-7`;
    const random = takeSlot() / 2;
    counter = pool.readUInt32LE(random) & maxCounter;
  }

  function takeSlot(): number {
    if (at === slots * slotDigits) {
      nodeCrypto().randomFillSync(pool);
      digits = pool.toString('hex');
      at = 0;
    }
    const slot = at;
    at += slotDigits;
    return slot;
  }
}

function clockOutOfRangeOfUuidV7(): SvcError {
  return new SvcError(
    'SVC_ENVELOPE_CLOCK_OUT_OF_RANGE',
    'event ids need a clock between 1970-01-01 and 10889-08-02',
  );
}

interface EventIds {
  next(): string;
  /** Why no id can be made: the clock was set back. `undefined`: ids are made. */
  problem(): string | undefined;
  /** The worker id of current event ids, and its origin. `undefined`: ids carry no worker id. */
  worker(): { readonly workerId: number; readonly source: string } | undefined;
  /** Requests a worker id that is unique across hosts. Ids do not wait for it. */
  lease(): void;
  /** Releases the leases. */
  close(deadlineMs: number): Promise<void>;
}

/** A process that ends earlier does not make the others of its group rebalance. */
const leaseAfterMs = 1_000;

/** The event ids of a process. `openLease`: a lease of worker ids through Kafka. */
export function createEventIds(config: Config, openLease: () => WorkerIdLease): EventIds {
  if (config.idGenerator.type === 'uuidv7')
    return {
      ...createUuidV7(),
      ...{ problem: () => undefined, worker: () => undefined, lease: () => {}, close: async () => {} },
    };
  const { workerId, leasePath: directory } = config.idGenerator;
  const ids = createSnowflakeIds({ workerId, directory });
  let lease: WorkerIdLease | undefined;
  let timer: NodeJS.Timeout | undefined;
  let isClosed = false;

  function start(): void {
    lease = openLease();
    void isolate(async () => lease?.start(ids.grant));
  }

  return {
    next: ids.next,
    worker: ids.worker,
    problem() {
      try {
        ids.next();
        return undefined;
      } catch (error) {
        return `Events are refused: ${(error as Error).message}`;
      }
    },
    lease() {
      // `lease` may be called after `close`, when a broker answers late.
      if (!isClosed && isLeasedInKafka(config)) timer = setTimeout(start, leaseAfterMs).unref();
    },
    async close(deadlineMs) {
      isClosed = true;
      clearTimeout(timer);
      await lease?.close(deadlineMs);
      ids.release();
    },
  };
}

/** Whether the worker id is leased through Kafka. */
export function isLeasedInKafka(config: Config): boolean {
  const { idGenerator, broker } = config;
  return (
    clientOf(broker.client).isKafka && idGenerator.workerId === undefined && idGenerator.lease !== 'host'
  );
}

/** The origin of a worker id. `derived`: another process may have the same one. */
type WorkerIdSource = 'configured' | 'kafka' | 'host' | 'derived';

interface WorkerId {
  readonly workerId: number;
  readonly source: WorkerIdSource;
}

/**
 * Snowflake ids with the worker id of this process, which is configured or leased on this host. While a `grant` lasts, ids carry
 * the granted one. `release` is for the end of the process.
 */
function createSnowflakeIds(options: WorkerLeaseOptions) {
  const { workerId, exclusive, release } = leaseWorkerId(options);
  const ofHost = exclusive ? 'host' : 'derived';
  const own: WorkerId = { workerId, source: options.workerId === undefined ? ofHost : 'configured' };
  return { ...createLeasedIds({ own, source: 'kafka' }), release };
}

interface LeasedIds {
  /** As `Snowflake.next`. */
  next(): string;
  /** Of an id made now. */
  worker(): WorkerId;
  grant(grant: WorkerIdGrant | undefined): void;
}

interface LeasedIdsOptions {
  /** Used without a lease. */
  readonly own: WorkerId;
  /** Of granted worker ids. */
  readonly source: WorkerIdSource;
}

/**
 * Ids with the leased worker id, while the lease lasts by this process's clocks. Each millisecond with an id checks the clocks,
 * because timers of a suspended process are late. The id contains the checked time, so a suspension after the check is harmless.
 */
function createLeasedIds({ own, source }: LeasedIdsOptions): LeasedIds {
  let nowMs = Number.NaN;
  let checkedMs = Number.NaN;
  /** If the clock steps back, ids continue from here, so this time must be within the lease. */
  let latestMs = Number.NEGATIVE_INFINITY;
  let granted: WorkerIdGrant | undefined;
  let leased = own;
  let current = own;
  const snowflake = createSnowflake({
    workerId: own.workerId,
    now: () => nowMs,
  });

  function look(): void {
    nowMs = clock.now();
    if (nowMs === checkedMs) return;
    checkedMs = nowMs;
    if (nowMs > latestMs) latestMs = nowMs;
    current = granted !== undefined && isRunning(granted) ? leased : own;
  }

  function isRunning({ from, until }: WorkerIdGrant): boolean {
    if (nowMs < from.wallMs || latestMs >= until.wallMs) return false;
    const monotonicMs = clock.monotonic();
    return monotonicMs >= from.monotonicMs && monotonicMs < until.monotonicMs;
  }

  return {
    next() {
      look();
      const { workerId } = current;
      if (workerId !== snowflake.workerId) snowflake.useWorkerId(workerId);
      return snowflake.next();
    },
    worker() {
      look();
      return current;
    },
    grant(grant) {
      granted = grant;
      if (grant !== undefined && (leased === own || grant.workerId !== leased.workerId))
        leased = { workerId: grant.workerId, source };
      checkedMs = Number.NaN;
    },
  };
}

/** Draws an integer from 0 to 2^32 - 1. */
type DrawWord = () => number;

/**
 * Random 32-bit words that differ between processes, from the system. Avoids `node:crypto`, which takes 8 ms to load.
 *
 * @param devicePath for tests
 */
export function randomWords(count: number, devicePath = '/dev/urandom'): Uint32Array {
  const words = new Uint32Array(count);
  try {
    const device = openSync(devicePath, 'r');
    try {
      if (readSync(device, words) === words.byteLength) return words;
    } finally {
      closeSync(device);
    }
  } catch {
    // Windows has no such device.
  }
  // Applications may replace Math.random with a fixed sequence, so time and ids are mixed in.
  const mixedIn = `${process.pid}|${threadId}|${process.hrtime.bigint()}|${Date.now()}`;
  return words.map((_, index) => Math.floor(Math.random() * 2 ** 32) ^ spreadHash(`${mixedIn}|${index}`));
}

/**
 * A fast word generator (sfc32 by Chris Doty-Humphrey) with a seed of four words. `Math.random` is unsafe: an application may
 * replace it with a sequence that repeats in all its processes.
 */
export function createWordSource(seed: Uint32Array = randomWords(4)): DrawWord {
  let [a = 0, b = 0, c = 0, counter = 1] = seed;
  const draw: DrawWord = () => {
    const sum = (a + b + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = ((c << 21) | (c >>> 11)) + sum;
    return sum >>> 0;
  };
  // The first words resemble the seed.
  for (let round = 0; round < 12; round++) draw();
  return draw;
}

const workerCount = maxWorkerId + 1;
/** A failed attempt met another process within microseconds. The next one draws another id. */
const maxAttemptCount = 50;
/** Whether the owner of a claim from another host or container runs is unknown: its claim is honored for this long. */
const foreignClaimMs = 7 * 24 * 3_600_000;

interface WorkerLeaseOptions {
  /** A configured worker id, 0 to 1023. Default: derived and leased. */
  readonly workerId?: number | undefined;
  /** Folder for the leases of this host's processes. Default: `svc-workers-<uid>` in the system's temporary folder. */
  readonly directory?: string | undefined;
  /** For tests. Default: `deriveWorkerId`. */
  readonly startAt?: number | undefined;
}

interface WorkerLease {
  readonly workerId: number;
  /** False: another thread of this host may use the same id; a warning was logged. */
  readonly exclusive: boolean;
  /** Releases the id. Also called at exit. The next process detects a killed owner. */
  release(): void;
}

/**
 * A worker id that no other process or worker thread of this host has, if they share the folder. Synchronous.
 *
 * Across hosts the id is only random, and two may be equal (with 10 processes in about 4 of 100 deployments). The random sequence
 * of Snowflake ids makes that harmless in nearly all cases. To be certain, configure a worker id for each process. A configured id
 * never changes; a warning is logged if another process of this host uses it, too.
 *
 * Throws only `SVC_ENVELOPE_WORKER_ID`, for a configured id out of range. If the folder is unusable, or all 1,024 ids are taken,
 * the derived id is used and a warning logged.
 */
export function leaseWorkerId(options: WorkerLeaseOptions = {}): WorkerLease {
  const configured = options.workerId === undefined ? undefined : checkWorkerId(options.workerId);
  const folder = options.directory ?? join(tmpdir(), `svc-workers-${userName()}`);
  const wanted = configured ?? options.startAt ?? deriveWorkerId(workerCount);
  const risk = 'event ids can repeat if another process uses it too';
  try {
    openLeaseFolder(folder, options.directory === undefined);
    const claims = claimsIn(folder);
    if (configured !== undefined) return keepConfigured(claims, configured);
    const claim = claimFreeId(claims, wanted);
    if (claim !== undefined) return held(claims, claim, true);
    logger.warn(`no worker id is free on this host; svc uses ${wanted}: ${risk}`);
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code ?? (error as Error).message;
    logger.warn(`worker ids cannot be leased in ${folder} (${reason}); using ${wanted}: ${risk}`);
  }
  return { workerId: wanted, exclusive: false, release: () => {} };
}

/**
 * Creates the folder for this user only. Throws if that fails. `ownOnly`: also throws if another user owns it. Any user can create
 * folders in a shared temporary folder, and the owner could remove svc's claims.
 */
function openLeaseFolder(folder: string, ownOnly: boolean): void {
  makeFolders(folder);
  const stat = lstatSync(folder);
  if (!stat.isDirectory()) throw new Error('it is not a directory');
  const uid = process.getuid?.();
  if (ownOnly && uid !== undefined && stat.uid !== uid) throw new Error('it belongs to another user');
}

type Claims = ReturnType<typeof claimsIn>;
function claimFreeId(claims: Claims, startAt: number): Claim | undefined {
  let wanted: number | undefined = startAt;
  for (let attempt = 0; attempt < maxAttemptCount && wanted !== undefined; attempt++) {
    const claim = claims.add(String(wanted));
    if (claims.rivalsOf(claim, believedIn(claims)).length === 0) return claim;
    claims.remove(claim);
    wanted = drawFreeId(claims);
  }
  return undefined;
}

/** Random: consecutive ids would collide again with the same process. */
function drawFreeId(claims: Claims): number | undefined {
  const all = claims.list();
  const free = freeIds(all);
  // Checking all claims takes a while, so only if no id is unclaimed.
  const choice = free.length > 0 ? free : freeIds(claims.standing(all, believedIn(claims)));
  return choice[Math.floor(Math.random() * choice.length)];
}

function freeIds(claims: readonly Claim[]): number[] {
  const taken = new Set(claims.map(({ subject }) => Number(subject)));
  return Array.from({ length: workerCount }, (_, id) => id).filter((id) => !taken.has(id));
}

function believedIn({ own, ageOf }: Claims): (claim: Claim) => boolean {
  return (claim) => claim.stamp.space === own.space || ageOf(claim, clock.now()) < foreignClaimMs;
}

function keepConfigured(claims: Claims, id: number): WorkerLease {
  const claim = claims.add(String(id));
  const [other] = claims.rivalsOf(claim, believedIn(claims));
  if (other !== undefined) {
    logger.warn(
      `worker id ${id} is configured, but process ${other.stamp.pid} uses it too: event ids can repeat`,
    );
  }
  return held(claims, claim, other === undefined);
}

function held(claims: Claims, claim: Claim, exclusive: boolean): WorkerLease {
  const release = (): void => {
    process.removeListener('exit', release);
    claims.remove(claim);
  };
  process.once('exit', release);
  return { workerId: Number(claim.subject), exclusive, release };
}

function userName(): string {
  return String(process.getuid?.() ?? userInfo().username);
}

/** A worker id for a period of time. Ids may carry it from `from` to `until`. */
export interface WorkerIdGrant {
  readonly workerId: number;
  readonly from: Instant;
  /** The first instant at which another process may have it. */
  readonly until: Instant;
}

/** On both clocks: a clock that stops or steps must not extend a lease. */
export interface Instant {
  /** Milliseconds since the epoch. */
  readonly wallMs: number;
  readonly monotonicMs: number;
}

/**
 * PORT: shares worker ids among processes, wherever they run.
 *
 * - Two grants of one worker id never overlap, even if a process is suspended, cut off or killed. Clocks of two hosts may differ by
 *   less than the time between grants.
 * - `start` returns at once; call it once. `onGrant` receives each grant, each renewal, and `undefined` at its end. A grant that is
 *   not renewed ends without a call.
 * - `close` releases the worker id within `deadlineMs`. Until then all timers and sockets are unref'd.
 * - Nothing throws or rejects. Problems go to the adapter's logger.
 */
export interface WorkerIdLease {
  start(onGrant: (grant: WorkerIdGrant | undefined) => void): void;
  close(deadlineMs: number): Promise<void>;
}

/**
 * Set by Kubernetes through its downward API, by ECS, Lambda, App Service, Nomad, Fly and Heroku. They differ between instances.
 */
const variables = [
  ...['POD_IP', 'POD_NAME', 'POD_UID', 'HOSTNAME', 'ECS_CONTAINER_METADATA_URI_V4'],
  ...['AWS_LAMBDA_LOG_STREAM_NAME', 'WEBSITE_INSTANCE_ID', 'NOMAD_ALLOC_ID', 'FLY_MACHINE_ID', 'DYNO'],
];
/** Contain the container's id, or paths with it, in all container runtimes. */
const containerFiles = ['/proc/self/cgroup', '/proc/self/mountinfo'];
const maxFileBytes = 16 * 1024;
/** The rest is long and equal everywhere. */
const longIds = /[\da-f-]{12,}/g;

/** A worker id below `count`, drawn again at each start, so containers with equal host names and process ids differ. */
function deriveWorkerId(count: number): number {
  const now = `${Date.now()}|${process.hrtime.bigint()}`;
  return spreadHash([...instanceTraits(), now, ...randomWords(4)].join('|')) % count;
}

/** Identifies this thread across hosts and containers. Never throws. */
export function instanceTraits(env: NodeJS.ProcessEnv = process.env): string[] {
  return [
    ...[hostname(), String(process.pid), String(threadId)],
    ...variables.map((name) => env[name] ?? ''),
    addresses(),
    ...containerFiles.map((path) => beginningOf(path).match(longIds)?.join() ?? ''),
  ];
}

function addresses(): string {
  try {
    const all = Object.values(networkInterfaces()).flatMap((one) => one ?? []);
    return all
      .filter(({ internal }) => !internal)
      .map(({ address, mac }) => `${address} ${mac}`)
      .join();
  } catch {
    // Some sandboxes refuse access.
    return '';
  }
}

function beginningOf(path: string): string {
  try {
    const file = openSync(path, 'r');
    try {
      const bytes = Buffer.alloc(maxFileBytes);
      return bytes.toString('latin1', 0, readSync(file, bytes));
    } finally {
      closeSync(file);
    }
  } catch {
    return '';
  }
}
