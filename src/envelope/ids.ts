import { closeSync, lstatSync, openSync, readSync } from 'node:fs';
import { hostname, networkInterfaces, tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { threadId } from 'node:worker_threads';
import { nodeCrypto } from '../ground/builtins.ts';
import {
  addClaim,
  ageOf,
  type Belief,
  type Claim,
  listClaims,
  ownStamp,
  type ProcessStamp,
  removeClaim,
  rivalsOf,
  spreadHash,
  standingClaims,
} from '../ground/claims.ts';
import { type Clock, systemClock } from '../ground/clock.ts';
import { SvcError } from '../ground/errors.ts';
import { bitsBelowMs, snowflakeEpochMs } from '../ground/event-fields.ts';
import { makeFolders } from '../ground/files.ts';
import type { Logger } from '../observe/logger.ts';

/** The default for `maxBackwardMs`: NTP steps stay below it, a wrongly set clock does not. */
export const defaultMaxBackwardMs = 10_000;
export const maxWorkerId = 1023;

const idsPerMs = 4096;
/** Beyond any sequence: no further id may carry the worker id of the last one. */
const worksElsewhere = 2 * idsPerMs;
const maxTimestampMs = 2 ** 41 - 1;
const msSize = (maxWorkerId + 1) * idsPerMs;
/** An id is three numbers of six digits, each exact in a number, so that no BigInt is needed. Only `low` changes per id. */
const partSize = 1_000_000;

export interface SnowflakeOptions {
  /** 0 to 1023, used by nobody else at the same time. */
  readonly workerId: number;
  /** Default: the system clock. */
  readonly clock?: Clock | undefined;
  /** A clock that steps back further than this throws; up to it, ids count on from the last one. Default: 10,000. */
  readonly maxBackwardMs?: number | undefined;
  /** 0 to 4,095: where the sequence of a millisecond begins. Default: at random. */
  readonly firstSequence?: (() => number) | undefined;
}

export interface Snowflake {
  /**
   * The next id. Throws `SVC_ENVELOPE_CLOCK_MOVED_BACKWARDS` (`ClockMovedBackwardsException`) as long as the clock is more
   * than `maxBackwardMs` behind the latest time it has shown, and `SVC_ENVELOPE_CLOCK_OUT_OF_RANGE` outside 2024 to 2093.
   */
  next(): string;
  /** That of the next id. */
  readonly workerId: number;
  /**
   * From the next id on, which lies in a later millisecond than the last one with another worker id. Throws
   * `SVC_ENVELOPE_WORKER_ID` for one out of range, and goes on with the present one.
   */
  useWorkerId(workerId: number): void;
}

/**
 * Makes ids: 41 bits of milliseconds since 2024, 10 of worker, 12 of sequence, in decimal. Each is greater than the one
 * before. Never waits: what a millisecond has no room for, or a clock that stepped back a little, goes on in the
 * milliseconds after the last id.
 *
 * The sequence of a millisecond begins at a random place, so that two processes that have one worker id by mistake seldom
 * make one id. A millisecond ahead of the clock begins at 0: thus 4,096 a millisecond last, for as long as they come.
 * Creating it throws `SVC_ENVELOPE_WORKER_ID` for a worker id out of range.
 */
export function createSnowflake(options: SnowflakeOptions): Snowflake {
  const { clock = systemClock, maxBackwardMs = defaultMaxBackwardMs } = options;
  const firstSequence = options.firstSequence ?? randomSequence(createWordSource());
  let workerId = checkWorkerId(options.workerId);
  /** The latest time the clock has shown. Ids may be ahead of it, so it is kept apart from theirs. */
  let latestMs = Number.NEGATIVE_INFINITY;
  let timestampMs = Number.NEGATIVE_INFINITY;
  let sequence = 0;
  let high = 0;
  let middle = 0;
  let low = 0;
  /** The digits of `high` and `middle`, without leading zeros; empty when there are none. */
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
    const nowMs = clock.now();
    if (nowMs > latestMs) latestMs = nowMs;
    else if (latestMs - nowMs > maxBackwardMs) throw clockMovedBackwards(latestMs - nowMs, maxBackwardMs);
    const elapsedMs = Math.floor(nowMs) - snowflakeEpochMs;
    // Written so that a clock that says NaN is refused too.
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

/** `000` to `999`: looking digits up costs less than writing a number. */
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
/** Of random bits an id: one hexadecimal digit in the fourth group, twelve in the last. */
const slotDigits = 14;
const slots = 512;

interface UuidV7Options {
  /** Default: the system clock. */
  readonly clock?: Clock | undefined;
  /** Fills with random bytes. Default: the system's, through `node:crypto`. */
  readonly fill?: ((bytes: Buffer) => void) | undefined;
}

/**
 * Makes UUIDs of version 7 (RFC 9562): 48 bits of milliseconds, a counter of 22 bits that begins at random in each (its
 * section 6.2, method 1), 52 random bits. Each is greater than the one before, as text too.
 *
 * Never waits, and never goes back: a clock that steps back, however far, or more than the counter holds, count on from the
 * last id. `next` throws `SVC_ENVELOPE_CLOCK_OUT_OF_RANGE` for a clock before 1970 or after 10889.
 */
export function createUuidV7(options: UuidV7Options = {}): { next(): string } {
  const { clock = systemClock } = options;
  const fill = options.fill ?? ((bytes: Buffer): void => void nodeCrypto().randomFillSync(bytes));
  /** `000` to `fff`: looking digits up costs less than writing a number. */
  const threeDigits = Array.from({ length: 0x1000 }, (_, value) => value.toString(16).padStart(3, '0'));
  const pool = Buffer.alloc((slots * slotDigits) / 2);
  let digits = '';
  let at = slots * slotDigits;
  let timestampMs = Number.NEGATIVE_INFINITY;
  let counter = 0;
  /** The upper 32 bits of the time last a minute. */
  let timedMinute = Number.NaN;
  let timeText = '';
  /** `019c5e1f-3c80-7` */
  let prefix = '';

  return { next };

  function next(): string {
    const nowMs = Math.floor(clock.now());
    // Written so that a clock that says NaN is refused too.
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
      fill(pool);
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

/** How a worker id was come by. `derived`: another process may have the same one. */
type WorkerIdSource = 'configured' | 'kafka' | 'host' | 'derived';

export interface WorkerId {
  readonly workerId: number;
  readonly source: WorkerIdSource;
}

interface LeasedIds {
  /** As `Snowflake.next`. */
  next(): string;
  /** Of an id that is made now. */
  worker(): WorkerId;
  grant(grant: WorkerIdGrant | undefined): void;
}

interface LeasedIdsOptions {
  /** Without a lease, and whenever there is none. */
  readonly own: WorkerId;
  /** Of the worker ids that are granted. */
  readonly source: WorkerIdSource;
  readonly clock: Clock;
}

/**
 * Ids with the worker id that is leased, as long as the lease runs by the clocks of this process; they are looked at in every
 * millisecond in which an id is made, because the timers of a process that was stopped for a minute come too late. The time in
 * an id is the one that was looked at: being stopped right after that does no harm.
 */
export function createLeasedIds({ own, source, clock }: LeasedIdsOptions): LeasedIds {
  let nowMs = Number.NaN;
  let checkedMs = Number.NaN;
  /** Ids count on from here where the clock steps back, so it is this time that must be within the lease. */
  let latestMs = Number.NEGATIVE_INFINITY;
  let granted: WorkerIdGrant | undefined;
  let leased = own;
  let current = own;
  const snowflake = createSnowflake({
    workerId: own.workerId,
    clock: { now: () => nowMs, monotonic: clock.monotonic },
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

/** Draws a whole number from 0 to 2^32 - 1. */
type DrawWord = () => number;

/**
 * Random 32-bit words that differ between processes. From the system, without `node:crypto`, which takes 8 ms to load.
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
    // Windows has none.
  }
  // Applications replace Math.random by one that draws the same in each process: time and number are mixed in.
  const mixedIn = `${process.pid}|${threadId}|${process.hrtime.bigint()}|${Date.now()}`;
  return words.map((_, index) => Math.floor(Math.random() * 2 ** 32) ^ spreadHash(`${mixedIn}|${index}`));
}

/**
 * Words in quick succession (sfc32 by Chris Doty-Humphrey), from a seed of four. Not `Math.random`: an application that
 * replaces it by one that repeats would draw alike in all of its processes.
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
  // The first ones still resemble the seed.
  for (let round = 0; round < 12; round++) draw();
  return draw;
}

const workerCount = maxWorkerId + 1;
/** Each attempt that fails met another process in the same microseconds, and the next id is drawn anew. */
const maxAttemptCount = 50;
/** A claim from another host or container cannot be asked whether it lives: it is believed for this long. */
const foreignClaimMs = 7 * 24 * 3_600_000;

interface WorkerLeaseOptions {
  /** A configured worker id, 0 to 1023. Default: derived and leased. */
  readonly workerId?: number | undefined;
  /** Folder that the processes of this host lease in. Default: `svc-workers-<uid>` in the system's temporary folder. */
  readonly directory?: string | undefined;
  readonly logger?: Logger | undefined;
  /** For tests. Default: drawn by `deriveWorkerId`. */
  readonly startAt?: number | undefined;
}

export interface WorkerLease {
  readonly workerId: number;
  /** False: another thread of this host may use the same id; a warning was logged. */
  readonly exclusive: boolean;
  /** Gives the id back. Done by itself at exit; a process that is killed is noticed by the next one. */
  release(): void;
}

/**
 * A worker id that no other process or worker thread of this host has, as long as they share the folder. Synchronous.
 *
 * Hosts do not see each other: there the id is only drawn at random, and two may meet by chance (with 10 processes in about
 * 4 of 100 deployments), which the random sequence of Snowflake ids makes harmless nearly always. Where it must be certain,
 * configure a worker id for each process: a configured id is never changed; one that another process of this host uses too
 * is named in a warning.
 *
 * Throws `SVC_ENVELOPE_WORKER_ID` for a configured id out of range, and nothing else: with an unusable folder, or none of
 * the 1,024 ids free, the derived id is used and a warning logged.
 */
export function leaseWorkerId(options: WorkerLeaseOptions = {}): WorkerLease {
  const configured = options.workerId === undefined ? undefined : checkWorkerId(options.workerId);
  const folder = options.directory ?? join(tmpdir(), `svc-workers-${userName()}`);
  const wanted = configured ?? options.startAt ?? deriveWorkerId(workerCount);
  const risk = 'event ids can repeat if another process uses it too';
  try {
    openLeaseFolder(folder, options.directory === undefined);
    const own = ownStamp();
    if (configured !== undefined) return keepConfigured(folder, configured, own, options.logger);
    const claim = claimFreeId(folder, wanted, own);
    if (claim !== undefined) return held(folder, claim, true);
    options.logger?.warn(`no worker id is free on this host; svc uses ${wanted}: ${risk}`);
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code ?? (error as Error).message;
    options.logger?.warn(`worker ids cannot be leased in ${folder} (${reason}); using ${wanted}: ${risk}`);
  }
  return { workerId: wanted, exclusive: false, release: () => {} };
}

/**
 * Makes the folder, open to this user alone. Throws when that is impossible, and with `ownOnly` when it is somebody
 * else's: anybody can make any folder below a common temporary one, and its owner could remove our claims.
 */
function openLeaseFolder(folder: string, ownOnly: boolean): void {
  makeFolders(folder);
  const stat = lstatSync(folder);
  if (!stat.isDirectory()) throw new Error('it is not a directory');
  const uid = process.getuid?.();
  if (ownOnly && uid !== undefined && stat.uid !== uid) throw new Error('it belongs to another user');
}

function claimFreeId(folder: string, startAt: number, own: ProcessStamp): Claim | undefined {
  let wanted: number | undefined = startAt;
  for (let attempt = 0; attempt < maxAttemptCount && wanted !== undefined; attempt++) {
    const claim = addClaim(folder, String(wanted), own);
    if (rivalsOf(folder, claim, believedIn(folder, own)).length === 0) return claim;
    removeClaim(folder, claim);
    wanted = drawFreeId(folder, own);
  }
  return undefined;
}

/** At random: processes that met once would meet again at the next number. */
function drawFreeId(folder: string, own: ProcessStamp): number | undefined {
  const claims = listClaims(folder);
  const free = freeIds(claims);
  // Asking all claims whether they live takes a while, so only when nothing is free without.
  const choice =
    free.length > 0 ? free : freeIds(standingClaims(folder, claims, own, believedIn(folder, own)));
  return choice[Math.floor(Math.random() * choice.length)];
}

function freeIds(claims: readonly Claim[]): number[] {
  const taken = new Set(claims.map(({ subject }) => Number(subject)));
  return Array.from({ length: workerCount }, (_, id) => id).filter((id) => !taken.has(id));
}

function believedIn(folder: string, own: ProcessStamp): Belief {
  return (claim) =>
    claim.stamp.space === own.space || ageOf(folder, claim, systemClock.now()) < foreignClaimMs;
}

function keepConfigured(
  folder: string,
  id: number,
  own: ProcessStamp,
  logger: Logger | undefined,
): WorkerLease {
  const claim = addClaim(folder, String(id), own);
  const [other] = rivalsOf(folder, claim, believedIn(folder, own));
  if (other !== undefined) {
    logger?.warn(
      `worker id ${id} is configured, but process ${other.stamp.pid} uses it too: event ids can repeat`,
    );
  }
  return held(folder, claim, other === undefined);
}

function held(folder: string, claim: Claim, exclusive: boolean): WorkerLease {
  const release = (): void => {
    process.removeListener('exit', release);
    removeClaim(folder, claim);
  };
  process.once('exit', release);
  return { workerId: Number(claim.subject), exclusive, release };
}

function userName(): string {
  return String(process.getuid?.() ?? userInfo().username);
}

/** A worker id that this process has for a while. Ids may carry it from the one instant until the other. */
export interface WorkerIdGrant {
  readonly workerId: number;
  readonly from: Instant;
  /** The first instant at which another process may have it. */
  readonly until: Instant;
}

/** On both clocks: one that stands still, or steps, must not make a lease longer. */
export interface Instant {
  /** Milliseconds since the epoch. */
  readonly wallMs: number;
  readonly monotonicMs: number;
}

/**
 * PORT: worker ids that processes share out among them, wherever they run.
 *
 * - Two grants of one worker id never overlap, whatever becomes of a process: stopped, cut off, or killed. Clocks of two
 *   hosts may differ by less than the time between them.
 * - `start` returns at once and is called once. `onGrant` hears of every grant, of its prolongations, and with `undefined` of
 *   its end; a grant that is not prolonged ends without a call.
 * - `close` gives the worker id back, within `deadlineMs`. Nothing keeps the process alive until then.
 * - Nothing throws or rejects: what has to be said goes to the logger that the adapter is made with.
 */
export interface WorkerIdLease {
  start(onGrant: (grant: WorkerIdGrant | undefined) => void): void;
  close(deadlineMs: number): Promise<void>;
}

/** Set by Kubernetes through its downward API, by ECS, Lambda, App Service, Nomad, Fly and Heroku; differ by instance. */
const variables = [
  ...['POD_IP', 'POD_NAME', 'POD_UID', 'HOSTNAME', 'ECS_CONTAINER_METADATA_URI_V4'],
  ...['AWS_LAMBDA_LOG_STREAM_NAME', 'WEBSITE_INSTANCE_ID', 'NOMAD_ALLOC_ID', 'FLY_MACHINE_ID', 'DYNO'],
];
/** Hold the id of the container, or paths with it, whichever runtime made it. */
const containerFiles = ['/proc/self/cgroup', '/proc/self/mountinfo'];
const maxFileBytes = 16 * 1024;
/** The rest is long, and the same everywhere. */
const longIds = /[\da-f-]{12,}/g;

/** A worker id below `count`, drawn anew at each start: what has one host name and process id, as containers have, differs. */
export function deriveWorkerId(count: number): number {
  const now = `${Date.now()}|${process.hrtime.bigint()}`;
  return spreadHash([...instanceTraits(), now, ...randomWords(4)].join('|')) % count;
}

/** What tells this thread from those of other hosts and containers. Never throws. */
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
    // Some sandboxes refuse to tell.
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
