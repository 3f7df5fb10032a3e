// group/: worker ids through a consumer group: Kafka sees to it that no two members have one.

import type { Instant, WorkerIdGrant, WorkerIdLease } from '../../../envelope/worker-id-lease.ts';
import { backoffMs, type Clock, inTime, within } from '../../../ground/clock.ts';
import type { Logger } from '../../../observe/logger.ts';
import type { GroupAccess, GroupConnection } from './group-connection.ts';
import { type GroupRefusals, refusalOf } from './group-refusals.ts';
import { assignWorkerIds, decodeAssignment, encodeClaim } from './worker-id-claims.ts';

/** After so long without a heartbeat Kafka takes a member out of the group, and no sooner. */
const sessionTimeoutMs = 10_000;
/** So long a change of the group waits for members that live. Not below the session, which a lease counts on. */
const rebalanceTimeoutMs = 20_000;
const heartbeatMs = 3_000;
/** A worker id is used only so long after it was given: whoever had it before has let go of it by then. */
export const takeOverMs = 6_000;
/**
 * A lease is as long as this after the last heartbeat was sent. It outlives the session: Kafka waits up to one session for a
 * member that died before it tells the others of a change, and they must not lose what they have meanwhile. A second is
 * left for clocks that do not run alike.
 */
export const leaseMs = sessionTimeoutMs + takeOverMs - 1_000;

const openLimitMs = 15_000;
/** Kafka answers when every member has joined, or is given up: who asks anew before then makes them all wait longer. */
const joinLimitMs = rebalanceTimeoutMs + 5_000;
const heartbeatLimitMs = 5_000;
const leaveLimitMs = 1_000;
const shortestPauseMs = 200;
const longestPauseMs = 10_000;
/** Somebody has to change a setting first. */
const refusedPauseMs = 300_000;
/** Before it is said that there is no worker id yet: a cluster that restarts is back by then. */
const quietFailureCount = 6;

export interface GroupLeaseOptions {
  readonly access: GroupAccess;
  readonly group: string;
  readonly maxWorkerId: number;
  readonly refusals: GroupRefusals;
  readonly clock: Clock;
  readonly logger: Logger;
}

interface Held {
  readonly workerId: number;
  readonly generation: number;
}

/**
 * A lease of a worker id through membership of a group in Kafka, without a topic and without a record: the leader of the
 * group gives each member a number (`assignWorkerIds`), members bring the one that they hold, and a member that is silent is
 * taken out by Kafka.
 */
export function createGroupLease(options: GroupLeaseOptions): WorkerIdLease {
  const { access, group, maxWorkerId, refusals, clock, logger } = options;
  const settings = {
    ...{ group, protocolType: 'svc-workers', protocolName: 'worker-ids-v1' },
    ...{ sessionTimeoutMs, rebalanceTimeoutMs },
  };
  const pauses = createPauses();
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
    const joined = await pauses.limited(joinLimitMs, to.join(memberId, claim));
    ({ memberId, generation } = joined);
    const sent = now();
    const answer = await pauses.limited(
      joinLimitMs,
      to.sync(joined, assignWorkerIds(joined.members, maxWorkerId)),
    );
    isMember = true;
    const { workerId, noWorkerId } = decodeAssignment(answer, maxWorkerId);
    hold(workerId, sent);
    if (workerId !== undefined) said.delete('none');
    else
      say('none', () =>
        logger.error(noWorkerId === undefined ? refusals.noneFree : refusals.wrong(noWorkerId)),
      );
  }

  async function beat(to: GroupConnection): Promise<void> {
    const sent = now();
    await pauses.limited(heartbeatLimitMs, to.heartbeat({ memberId, generation }));
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
      return ++changes === 1 ? 0 : spread(shortestPauseMs);
    }
    failures++;
    drop();
    const refusal = refusalOf(name, refusals);
    if (refusal !== undefined) {
      isMember = false;
      say(refusal, () => logger.warn(refusal));
      return spread(refusedPauseMs);
    }
    logger.debug(`worker id: ${access.describe(error)}`);
    if (failures === quietFailureCount && held === undefined)
      say('unreachable', () => logger.warn(refusals.notYet(access.describe(error))));
    return spread(backoffMs(failures + 1, shortestPauseMs, longestPauseMs));
  }

  async function open(): Promise<GroupConnection> {
    const opening = access.open(settings);
    try {
      return await pauses.limited(openLimitMs, opening);
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
        await (isMember ? beat(connection) : join(connection));
        failures = 0;
        changes = 0;
      } catch (error) {
        pauseMs = recover(error);
      }
      if (!closed && pauseMs > 0) await pauses.pause(pauseMs);
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
      pauses.end();
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

/** So that those who failed together do not come back together. */
function spread(ms: number): number {
  return ms * (0.75 + Math.random() / 2);
}

/** Waits that keep no process alive, and that end together. */
interface Pauses {
  pause(ms: number): Promise<void>;
  /** Rejects where `work` is not done in time; what it does then is up to whoever started it. */
  limited<T>(ms: number, work: Promise<T>): Promise<T>;
  /** The pause that runs is over, and so is each one from now on. */
  end(): void;
}

function createPauses(): Pauses {
  let isOver = false;
  let wake: () => void = () => {};

  return {
    pause(ms) {
      if (isOver) return Promise.resolve();
      return new Promise((resolve) => {
        const timer = setTimeout(resolve, ms).unref();
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    },
    limited(ms, work) {
      const late = (): never => {
        throw new Error(`no answer within ${ms} ms`);
      };
      return inTime(work, { limitMs: ms, keepsAlive: false, late });
    },
    end() {
      isOver = true;
      wake();
    },
  };
}
