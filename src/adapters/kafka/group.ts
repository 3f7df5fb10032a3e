import type { Instant, WorkerIdGrant, WorkerIdLease } from '../../envelope/ids.ts';
import { backoffMs, clock, inTime, within } from '../../ground/clock.ts';
import { maxWorkerId } from '../../ground/event-fields.ts';
import { loadOnce } from '../../ground/lifecycle.ts';
import { logger } from '../../observe/logger.ts';
import type { KafkaClientOptions } from './kafka-client-options.ts';
import { AnswerReader, checkCode, int32, type KafkaRequest, list, ProtocolError, text } from './protocol.ts';
import { protocolErrorIn, toSendFailure, who } from './send-failure.ts';
import {
  type Address,
  type Connections,
  createConnections,
  keyOf,
  type LoadTransport,
  parseAddress,
} from './transport.ts';

/** On top of the time that a broker waits for the other members. */
const answerMs = 5_000;

/** Groups through bare requests, because the clients' consumers require topics. */
export function createKafkaGroup(options: KafkaClientOptions, load: LoadTransport): GroupAccess {
  const loadTransport = loadOnce(() => load(options));

  return {
    errorName: protocolErrorIn,
    describe: (error) => toSendFailure(error, { options, written: false }).message,

    async open(settings) {
      const { group } = settings;
      const requestTimeoutMs = settings.rebalanceTimeoutMs + answerMs;
      const open = createConnections(await loadTransport(), { ...options, requestTimeoutMs });
      try {
        const { ask } = await open.get(await findCoordinator(open, options, group));
        const join = (memberId: string, metadata: Buffer) => ask(joinRequest(settings, memberId, metadata));
        return {
          join: (memberId, metadata) =>
            join(memberId, metadata).catch((error: Error) => {
              if (error.cause instanceof MemberIdRequired) return join(error.cause.memberId, metadata);
              throw error;
            }),
          sync: (membership, assignments) => ask(syncRequest(group, membership, assignments)),
          heartbeat: (membership) => ask(heartbeatRequest(group, membership)),
          leave: ({ memberId }) => ask(leaveRequest(group, memberId)),
          close: open.close,
        } satisfies GroupConnection;
      } catch (error) {
        open.close();
        throw error;
      }
    },
  };
}

/** Asks one broker after the other until one answers. */
async function findCoordinator(
  open: Connections,
  { brokers }: KafkaClientOptions,
  group: string,
): Promise<Address> {
  let failure: unknown;
  for (const seed of brokers.map(parseAddress)) {
    try {
      const found = await (await open.get(seed)).ask(coordinatorRequest(group));
      if (keyOf(found) !== keyOf(seed)) open.drop(seed);
      return found;
    } catch (error) {
      if (protocolErrorIn(error) !== undefined) throw error;
      failure ??= error;
    }
  }
  throw failure;
}

// worker ids through a consumer group: Kafka gives no two members the same one.

/** Kafka removes a member after this long without a heartbeat. */
const sessionTimeoutMs = 10_000;
/** How long a rebalance waits for live members. A lease relies on it being no shorter than the session. */
const rebalanceTimeoutMs = 20_000;
const heartbeatMs = 3_000;
/** A worker id is first used this long after it was assigned: its previous owner has stopped using it by then. */
const takeOverMs = 6_000;
/**
 * The length of a lease after its last heartbeat was sent. It outlives the session, because Kafka waits up to one session for a
 * dead member before it tells the others of a rebalance. They must keep their ids meanwhile. One second is left for clock
 * drift.
 */
const leaseMs = sessionTimeoutMs + takeOverMs - 1_000;

const openLimitMs = 15_000;
/** Kafka answers when all members have joined or were removed. A member that joins again meanwhile delays all. */
const joinLimitMs = rebalanceTimeoutMs + 5_000;
const heartbeatLimitMs = 5_000;
const leaveLimitMs = 1_000;
const shortestPauseMs = 200;
const longestPauseMs = 10_000;
/** An operator has to change a setting first. */
const refusedPauseMs = 300_000;
/** Failures before the first warning: a cluster that restarts is back by then. */
const quietFailureCount = 6;

interface GroupLeaseOptions {
  readonly access: GroupAccess;
  readonly group: string;
  readonly refusals: GroupRefusals;
}

interface Held {
  readonly workerId: number;
  readonly generation: number;
}

/**
 * A lease of a worker id through membership of a Kafka group, without a topic and without a record. The leader gives each
 * member a number (`assignWorkerIds`), members bring the one that they hold, and Kafka removes silent members.
 */
export function createGroupLease(options: GroupLeaseOptions): WorkerIdLease {
  const { access, group, refusals } = options;
  const settings = {
    ...{ group, protocolType: 'svc-workers', protocolName: 'worker-ids-v1' },
    ...{ sessionTimeoutMs, rebalanceTimeoutMs },
  };
  const timers = createTimers();
  const said = new Set<string>();
  let onGrant: (grant: WorkerIdGrant | undefined) => void = () => {};
  let connection: GroupConnection | undefined;
  let memberId = '';
  let generation = 0;
  let isMember = false;
  let held: Held | undefined;
  let grant: WorkerIdGrant | undefined;
  let failures = 0;
  let changes = 0;
  let closed = false;

  const now = (): Instant => ({ wallMs: clock.now(), monotonicMs: clock.monotonic() });

  function isRunning(): boolean {
    const { wallMs, monotonicMs } = now();
    return grant !== undefined && wallMs < grant.until.wallMs && monotonicMs < grant.until.monotonicMs;
  }

  function hold(workerId: number | undefined, sent: Instant): void {
    if (closed) return;
    const isSame = workerId === grant?.workerId && isRunning();
    held = workerId === undefined ? undefined : { workerId, generation };
    grant =
      workerId === undefined
        ? undefined
        : {
            workerId,
            from: isSame && grant !== undefined ? grant.from : later(now(), takeOverMs),
            until: later(sent, leaseMs),
          };
    onGrant(grant);
  }

  async function join(to: GroupConnection): Promise<void> {
    const claim = encodeClaim(held && { ...held, isHeld: isRunning() });
    const joined = await timers.limited(joinLimitMs, to.join(memberId, claim));
    ({ memberId, generation } = joined);
    const sent = now();
    const answer = await timers.limited(joinLimitMs, to.sync(joined, assignWorkerIds(joined.members)));
    isMember = true;
    const { workerId, noWorkerId } = decodeAssignment(answer);
    hold(workerId, sent);
    if (workerId !== undefined) said.delete('none');
    else
      say('none', () =>
        logger.error(noWorkerId === undefined ? refusals.noneFree : refusals.wrong(noWorkerId)),
      );
  }

  async function heartbeat(to: GroupConnection): Promise<void> {
    const sent = now();
    await timers.limited(heartbeatLimitMs, to.heartbeat({ memberId, generation }));
    if (held !== undefined) hold(held.workerId, sent);
  }

  function say(what: string, how: () => void): void {
    if (closed || said.has(what)) return;
    said.add(what);
    how();
  }

  function drop(): void {
    connection?.close();
    connection = undefined;
  }

  /** Returns how long to wait before the next attempt. */
  function recover(error: unknown): number {
    const name = access.errorName(error);
    if (name === 'UNKNOWN_MEMBER_ID') memberId = '';
    if (name === 'REBALANCE_IN_PROGRESS' || name === 'ILLEGAL_GENERATION' || name === 'UNKNOWN_MEMBER_ID') {
      isMember = false;
      return ++changes === 1 ? 0 : withJitter(shortestPauseMs);
    }
    failures++;
    drop();
    const refusal = refusalOf(name, refusals);
    if (refusal !== undefined) {
      isMember = false;
      say(refusal, () => logger.warn(refusal));
      return withJitter(refusedPauseMs);
    }
    logger.debug(`worker id: ${access.describe(error)}`);
    if (failures === quietFailureCount && held === undefined)
      say('unreachable', () => logger.warn(refusals.notYet(access.describe(error))));
    return withJitter(backoffMs(failures + 1, shortestPauseMs, longestPauseMs));
  }

  async function open(): Promise<GroupConnection> {
    const opening = access.open(settings);
    try {
      return await timers.limited(openLimitMs, opening);
    } catch (error) {
      opening.then((late) => late.close()).catch(() => {});
      throw error;
    }
  }

  async function run(): Promise<void> {
    while (!closed) {
      let pauseMs = heartbeatMs;
      try {
        connection ??= await open();
        if (closed) return drop();
        await (isMember ? heartbeat(connection) : join(connection));
        failures = 0;
        changes = 0;
      } catch (error) {
        pauseMs = recover(error);
      }
      if (!closed && pauseMs > 0) await timers.pause(pauseMs);
    }
  }

  return {
    start(listener) {
      onGrant = listener;
      void run();
    },

    async close(deadlineMs) {
      closed = true;
      grant = undefined;
      onGrant(undefined);
      timers.end();
      // A member that waits for the answer to a join cannot leave: Kafka reads nothing from its connection until then.
      if (connection !== undefined && isMember) {
        const leaving = connection.leave({ memberId, generation }).catch(() => {});
        await within(Math.min(deadlineMs, leaveLimitMs), leaving);
      }
      drop();
    },
  };
}

function later({ wallMs, monotonicMs }: Instant, ms: number): Instant {
  return { wallMs: wallMs + ms, monotonicMs: monotonicMs + ms };
}

/** Members that failed together must not come back together. */
function withJitter(ms: number): number {
  return ms * (0.75 + Math.random() / 2);
}

function createTimers() {
  let isOver = false;
  let wake: () => void = () => {};

  return {
    pause(ms: number): Promise<void> {
      if (isOver) return Promise.resolve();
      return new Promise((resolve) => {
        const timer = setTimeout(resolve, ms).unref();
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    },
    /** Rejects if `work` takes longer. `work` itself continues. */
    limited<T>(ms: number, work: Promise<T>): Promise<T> {
      const late = (): never => {
        throw new Error(`no answer within ${ms} ms`);
      };
      return inTime(work, { limitMs: ms, keepsAlive: false, late });
    },
    /** Ends the current pause and all later ones. */
    end(): void {
      isOver = true;
      wake();
    },
  };
}

interface GroupRefusals {
  readonly byError: Readonly<Record<string, string>>;
  readonly noneFree: string;
  /** The leader assigned something other than a worker id. */
  wrong(given: string): string;
  notYet(reason: string): string;
}

const meanwhile = 'until then event ids use a worker id of this host, which other hosts may also use';
const setting = 'svc.id-generator.group';

export function groupRefusals(group: string, options: KafkaClientOptions): GroupRefusals {
  const name = JSON.stringify(group);
  const line = (problem: string, fix: string): string =>
    `no worker id from Kafka: ${problem}: ${fix}; ${meanwhile}`;
  const another = line(
    `the group ${name} belongs to another application`,
    `choose another group in ${setting}`,
  );
  return {
    byError: {
      GROUP_AUTHORIZATION_FAILED: line(
        `${who(options)} may not use the group ${name}`,
        'grant it Read on this group, or set svc.id-generator.lease to host',
      ),
      INCONSISTENT_GROUP_PROTOCOL: another,
      INVALID_GROUP_ID: line(`Kafka refuses the name of the group ${name}`, `set ${setting}`),
      GROUP_MAX_SIZE_REACHED: line(
        `the group ${name} has the maximum number of members`,
        'raise group.max.size there',
      ),
      INVALID_SESSION_TIMEOUT: line(
        'the brokers do not allow sessions of 10 s',
        'set group.min.session.timeout.ms and group.max.session.timeout.ms to include 10 s',
      ),
      UNSUPPORTED_VERSION: line(
        'these brokers do not support the group protocol',
        'set svc.id-generator.lease to host',
      ),
    },
    noneFree: `all 1,024 worker ids of the group ${name} are taken. Give services without common consumers separate groups (${setting}), or set svc.id-generator.type to uuidv7; ${meanwhile}`,
    wrong: (given) =>
      line(
        `the leader of the group ${name} gave this process ${given}, which is not a worker id`,
        'check the members of the group, and grant Read on it only to processes with svc',
      ),
    notYet: (reason) => `no worker id from Kafka yet (${reason}); ${meanwhile}`,
  };
}

export function refusalOf(errorName: string | undefined, { byError }: GroupRefusals): string | undefined {
  return errorName === undefined ? undefined : byError[errorName];
}

/**
 * A connection to the coordinator of one group, used for nothing else. A broker answers the requests of a connection in turn,
 * and a join takes seconds. Calls reject with errors of the client, and when the connection is closed.
 */
interface GroupConnection {
  /** An empty `memberId`: as a new member. */
  join(memberId: string, metadata: Buffer): Promise<Joined>;
  /** `assignments`: from the leader only. Resolves with the assignment of this member. */
  sync(membership: Membership, assignments: readonly GroupAssignment[]): Promise<Buffer>;
  heartbeat(membership: Membership): Promise<void>;
  leave(membership: Membership): Promise<void>;
  close(): void;
}

interface GroupAccess {
  open(settings: GroupSettings): Promise<GroupConnection>;
  /** Kafka's name of the error, such as `REBALANCE_IN_PROGRESS`; `undefined` if Kafka did not answer. */
  errorName(error: unknown): string | undefined;
  /** One line for an operator. */
  describe(error: unknown): string;
}

/** A member's metadata when it joins. */
interface WorkerIdClaim {
  readonly workerId: number;
  /** The generation of the group in which it got this worker id. */
  readonly generation: number;
  /** Whether its lease still runs. If not, it asks for the same id again. */
  readonly isHeld: boolean;
}

const claimBytes = 7;
const noneFree = Buffer.alloc(0);

function encodeClaim(claim: WorkerIdClaim | undefined): Buffer {
  if (claim === undefined) return Buffer.alloc(0);
  const bytes = Buffer.alloc(claimBytes);
  bytes.writeUInt16BE(claim.workerId, 0);
  bytes.writeInt32BE(claim.generation, 2);
  bytes.writeUInt8(claim.isHeld ? 1 : 0, 6);
  return bytes;
}

/** `undefined` for a new member, or an invalid claim. */
function decodeClaim(bytes: Buffer): WorkerIdClaim | undefined {
  if (bytes.length < claimBytes) return undefined;
  const workerId = bytes.readUInt16BE(0);
  if (workerId > maxWorkerId) return undefined;
  return { workerId, generation: bytes.readInt32BE(2), isHeld: bytes.readUInt8(6) === 1 };
}

/** The leader's assignment. Neither field is set if no id was free. */
interface Given {
  readonly workerId?: number;
  readonly noWorkerId?: string;
}

function decodeAssignment(bytes: Buffer): Given {
  if (bytes.length === 0) return {};
  if (bytes.length !== 2)
    return { noWorkerId: bytes.length === 1 ? 'a single byte' : `${bytes.length} bytes` };
  const workerId = bytes.readUInt16BE(0);
  return workerId > maxWorkerId ? { noWorkerId: String(workerId) } : { workerId };
}

/**
 * A worker id for each member, independent of who leads. Members with a running lease keep theirs. If two claim one id, the
 * later generation wins, because the other member was away. Then come earlier owners, then the lowest free ids.
 */
function assignWorkerIds(members: readonly GroupMember[]): GroupAssignment[] {
  const claims = members
    .map(({ memberId, metadata }) => ({ memberId, claim: decodeClaim(metadata) }))
    .sort((a, b) => byPrecedence(a.claim, b.claim) || (a.memberId < b.memberId ? -1 : 1));
  const taken = new Map<number, string>();
  for (const { memberId, claim } of claims)
    if (claim !== undefined && !taken.has(claim.workerId)) taken.set(claim.workerId, memberId);
  const given = new Map([...taken].map(([workerId, memberId]) => [memberId, workerId]));
  let next = 0;
  return claims.map(({ memberId }) => {
    let workerId = given.get(memberId);
    if (workerId === undefined) {
      while (taken.has(next)) next++;
      workerId = next++;
    }
    return { memberId, assignment: workerId > maxWorkerId ? noneFree : encodeAssignment(workerId) };
  });
}

function byPrecedence(a: WorkerIdClaim | undefined, b: WorkerIdClaim | undefined): number {
  if (a === undefined || b === undefined) return Number(a === undefined) - Number(b === undefined);
  return Number(b.isHeld) - Number(a.isHeld) || b.generation - a.generation;
}

function encodeAssignment(workerId: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16BE(workerId);
  return bytes;
}

/** Reads only whether the request was refused. */
function readRefusal(bytes: Buffer): void {
  const answer = new AnswerReader(bytes);
  answer.skip(4); // Throttle time.
  checkCode(answer.int16());
}

interface GroupMember {
  readonly memberId: string;
  readonly metadata: Buffer;
}

interface GroupAssignment {
  readonly memberId: string;
  readonly assignment: Buffer;
}

interface Membership {
  readonly memberId: string;
  readonly generation: number;
}

interface Joined extends Membership {
  /** All members if this member leads the group, otherwise empty. */
  readonly members: readonly GroupMember[];
}

interface GroupSettings {
  readonly group: string;
  readonly protocolType: string;
  readonly protocolName: string;
  readonly sessionTimeoutMs: number;
  readonly rebalanceTimeoutMs: number;
}

/** From these versions on, a member may have an instance id. svc sends none. */
const withInstance = { join: 5, sync: 3, heartbeat: 3 } as const;

const noInstance = text(null);

/** Kafka asks a new member to join again with this id. */
class MemberIdRequired extends ProtocolError {
  readonly memberId: string;

  constructor(memberId: string) {
    super(memberIdRequired);
    this.memberId = memberId;
  }
}

const memberIdRequired = 79;

function blob(bytes: Buffer): Buffer {
  return Buffer.concat([int32(bytes.length), bytes]);
}

function coordinatorRequest(group: string): KafkaRequest<Address> {
  return {
    ...{ key: 10, name: 'FindCoordinator', oldest: 1, newest: 2 },
    throttle: { at: 'start', from: 2 },
    write: () => [text(group), Buffer.from([0])],
    read(bytes) {
      const answer = new AnswerReader(bytes);
      answer.skip(4);
      const code = answer.int16();
      answer.text();
      checkCode(code);
      answer.skip(4);
      return { host: answer.text() ?? '', port: answer.int32() };
    },
  };
}

function joinRequest(settings: GroupSettings, memberId: string, metadata: Buffer): KafkaRequest<Joined> {
  return {
    ...{ key: 11, name: 'JoinGroup', oldest: 2, newest: 5 },
    throttle: { at: 'start', from: 3 },
    write: (version) => [
      ...[text(settings.group), int32(settings.sessionTimeoutMs), int32(settings.rebalanceTimeoutMs)],
      ...[text(memberId), ...(version >= withInstance.join ? [noInstance] : [])],
      text(settings.protocolType),
      list([metadata], (each) => Buffer.concat([text(settings.protocolName), blob(each)])),
    ],
    read(bytes, version) {
      const answer = new AnswerReader(bytes);
      answer.skip(4);
      const code = answer.int16();
      const generation = answer.int32();
      answer.text();
      answer.text();
      const given = answer.text() ?? '';
      if (code === memberIdRequired) throw new MemberIdRequired(given);
      checkCode(code);
      const members = answer.list((): GroupMember => {
        const id = answer.text() ?? '';
        if (version >= withInstance.join) answer.text();
        return { memberId: id, metadata: answer.blob() };
      });
      return { memberId: given, generation, members };
    },
  };
}

const head = (group: string, { generation, memberId }: Membership, hasInstance: boolean): Buffer[] => [
  ...[text(group), int32(generation), text(memberId)],
  ...(hasInstance ? [noInstance] : []),
];

/** The answer is the leader's assignment for this member. */
function syncRequest(
  group: string,
  membership: Membership,
  assignments: readonly GroupAssignment[],
): KafkaRequest<Buffer> {
  return {
    ...{ key: 14, name: 'SyncGroup', oldest: 1, newest: 3 },
    throttle: { at: 'start', from: 2 },
    write: (version) => [
      ...head(group, membership, version >= withInstance.sync),
      list(assignments, (each) => Buffer.concat([text(each.memberId), blob(each.assignment)])),
    ],
    read(bytes) {
      readRefusal(bytes);
      const answer = new AnswerReader(bytes);
      answer.skip(6);
      return answer.blob();
    },
  };
}

export function heartbeatRequest(group: string, membership: Membership): KafkaRequest<void> {
  return {
    ...{ key: 12, name: 'Heartbeat', oldest: 1, newest: 3 },
    throttle: { at: 'start', from: 2 },
    write: (version) => head(group, membership, version >= withInstance.heartbeat),
    read: readRefusal,
  };
}

function leaveRequest(group: string, memberId: string): KafkaRequest<void> {
  return {
    ...{ key: 13, name: 'LeaveGroup', oldest: 1, newest: 2 },
    throttle: { at: 'start', from: 2 },
    write: () => [text(group), text(memberId)],
    read: readRefusal,
  };
}
