import assert from 'node:assert/strict';
import {
  createGroupLease,
  type createKafkaGroup,
  groupRefusals,
} from '../../../../src/adapters/kafka/group.ts';
import type { WorkerIdGrant, WorkerIdLease } from '../../../../src/envelope/ids.ts';
import { clockOfEach, useClock } from '../../../support/fake-time.ts';
import { useLogger } from '../../../support/log.ts';
import { kafkaOptions } from '../kafka-options.ts';

const never = new Promise<never>(() => {});

/** A coordinator with one member, which does what the test says. */
type GroupAccess = ReturnType<typeof createKafkaGroup>;
type GroupConnection = Awaited<ReturnType<GroupAccess['open']>>;

const takeOverMs = 6_000;
const leaseMs = 15_000;

function fakeAccess(overrides: Partial<GroupConnection> = {}) {
  const calls: string[] = [];
  const note = <T>(name: string, answer: T): T => {
    calls.push(name);
    return answer;
  };
  const connection: GroupConnection = {
    join: async (memberId, metadata) => ({
      memberId: memberId || 'member-1',
      generation: 1,
      members: [{ memberId: memberId || 'member-1', metadata }],
    }),
    sync: async (_, [own]) => own?.assignment ?? Buffer.alloc(0),
    heartbeat: async () => {},
    leave: async () => {},
    close: () => {},
    ...overrides,
  };
  const access: GroupAccess = {
    open: async () =>
      note('open', {
        join: (...args) => note('join', connection.join(...args)),
        sync: (...args) => note('sync', connection.sync(...args)),
        heartbeat: (...args) => note('heartbeat', connection.heartbeat(...args)),
        leave: (...args) => note('leave', connection.leave(...args)),
        close: () => note('close', connection.close()),
      }),
    errorName: (error) => (error as { type?: string }).type,
    describe: (error) => (error as Error).message,
  };
  return { access, calls, connection };
}

const refusal = (type: string): Error => Object.assign(new Error(type), { type });

describe('createGroupLease', () => {
  let lines: string[];
  let grants: (WorkerIdGrant | undefined)[];
  const startMs = Date.UTC(2026, 10, 22);
  const clock = clockOfEach({ now: startMs });

  beforeEach(() => {
    lines = [];
    grants = [];
    useClock({ now: () => Date.now(), monotonic: () => Date.now() - startMs });
  });

  function leaseOf(access: GroupAccess): WorkerIdLease {
    const log = (message: string): void => void lines.push(message);
    useLogger({ debug() {}, info: log, warn: log, error: log });
    const lease = createGroupLease({
      access,
      group: 'svc-workers',
      refusals: groupRefusals('svc-workers', kafkaOptions(['kafka:9092'])),
    });
    lease.start((grant) => grants.push(grant));
    return lease;
  }

  const windowOf = (grant: WorkerIdGrant | undefined) => [
    grant?.workerId,
    grant?.from.monotonicMs,
    grant?.until.monotonicMs,
  ];

  it('may be used six seconds after it was given, until 15 s after the last heartbeat was sent', async () => {
    leaseOf(fakeAccess().access);
    await clock.tickAsync(0);
    assert.deepEqual(grants.map(windowOf), [[0, takeOverMs, leaseMs]]);
    await clock.tickAsync(3_000);
    assert.deepEqual(windowOf(grants.at(-1)), [0, takeOverMs, 3_000 + leaseMs]);
  });

  it('counts from the time at which a heartbeat was sent, not from its answer', async () => {
    const slow = new Promise<void>((resolve) => setTimeout(resolve, 5_000));
    leaseOf(fakeAccess({ heartbeat: () => slow }).access);
    await clock.tickAsync(5_000);
    assert.deepEqual(windowOf(grants.at(-1)), [0, takeOverMs, 3_000 + leaseMs]);
  });

  it('keeps its number while the group changes, without a gap', async () => {
    let isChanging = true;
    const claims: number[][] = [];
    const fake = fakeAccess({
      async join(_, metadata) {
        claims.push([...metadata]);
        return { memberId: 'member-1', generation: 7, members: [{ memberId: 'member-1', metadata }] };
      },
      heartbeat: async () => {
        if (!isChanging) return;
        isChanging = false;
        throw refusal('REBALANCE_IN_PROGRESS');
      },
    });
    leaseOf(fake.access);
    await clock.tickAsync(3_000);
    assert.deepEqual(fake.calls, ['open', 'join', 'sync', 'heartbeat', 'join', 'sync']);
    assert.deepEqual(claims, [[], [0, 0, 0, 0, 0, 7, 1]], 'the id, the generation that gave it, still held');
    assert.deepEqual(grants.map(windowOf), [
      [0, takeOverMs, leaseMs],
      [0, takeOverMs, 3_000 + leaseMs],
    ]);
  });

  it('a member that was away waits anew before it uses what it is given, the same number or not', async () => {
    const { access, connection } = fakeAccess();
    let isAway = false;
    const claims: number[][] = [];
    leaseOf({
      ...access,
      open: async () => ({
        ...connection,
        join(memberId, metadata) {
          claims.push([...metadata]);
          return connection.join(memberId, metadata);
        },
        async heartbeat() {
          if (!isAway) return;
          isAway = false;
          clock.setSystemTime(Date.now() + 60_000);
          throw refusal('UNKNOWN_MEMBER_ID');
        },
      }),
    });
    await clock.tickAsync(4_000);
    isAway = true;
    await clock.tickAsync(2_000);
    const awayMs = 66_000;
    assert.deepEqual(windowOf(grants.at(-1)), [0, awayMs + takeOverMs, awayMs + leaseMs]);
    assert.deepEqual(claims, [[], [0, 0, 0, 0, 0, 1, 0]], 'no longer held');
  });

  it('a heartbeat that is not answered is given up after 5 s, and sent again on another connection', async () => {
    let isHanging = true;
    const fake = fakeAccess({ heartbeat: () => (isHanging ? never : Promise.resolve()) });
    leaseOf(fake.access);
    await clock.tickAsync(3_000 + 4_999);
    assert.deepEqual(fake.calls.slice(3), ['heartbeat']);
    isHanging = false;
    await clock.tickAsync(1_000);
    assert.deepEqual(fake.calls.slice(3), ['heartbeat', 'close', 'open', 'heartbeat']);
    assert.deepEqual(grants.at(-1)?.workerId, 0);
    assert.deepEqual(lines, []);
  });

  it('a refusal is one line that says what to do, and asked about again after some minutes', async () => {
    for (const [type, pattern] of [
      [
        'GROUP_AUTHORIZATION_FAILED',
        /the client "svc-tests" may not use the group "svc-workers": grant it Read/,
      ],
      [
        'INCONSISTENT_GROUP_PROTOCOL',
        /the group "svc-workers" belongs to another application: choose another group in svc\.id-generator\.group/,
      ],
      ['GROUP_MAX_SIZE_REACHED', /group\.max\.size/],
      ['INVALID_SESSION_TIMEOUT', /group\.min\.session\.timeout\.ms/],
    ] as const) {
      lines = [];
      const fake = fakeAccess({ join: () => Promise.reject(refusal(type)) });
      const lease = leaseOf(fake.access);
      await clock.tickAsync(224_000);
      assert.deepEqual(fake.calls, ['open', 'join', 'close'], type);
      await clock.tickAsync(376_000);
      assert.ok(fake.calls.length >= 6, type);
      assert.equal(lines.length, 1, type);
      assert.match(lines[0] ?? '', pattern);
      assert.match(
        lines[0] ?? '',
        /^no worker id from Kafka: [^\n]*; until then event ids use a worker id of this host/,
      );
      await lease.close(0);
    }
  });

  it('all 1,024 taken: an error line, once, and none until one is free', async () => {
    let free: Buffer = Buffer.alloc(0);
    const fake = fakeAccess({
      sync: async () => free,
      heartbeat: () => Promise.reject(refusal('REBALANCE_IN_PROGRESS')),
    });
    leaseOf(fake.access);
    await clock.tickAsync(10_000);
    assert.deepEqual(new Set(grants), new Set([undefined]));
    assert.equal(lines.length, 1);
    assert.match(lines[0] ?? '', /^all 1,024 worker ids of the group "svc-workers" are taken\. /);
    free = Buffer.from([3, 255]);
    await clock.tickAsync(5_000);
    assert.equal(grants.at(-1)?.workerId, 1023);
  });

  it('a cluster that is away is said once, after a while, if there was no worker id yet', async () => {
    const fake = fakeAccess();
    leaseOf({ ...fake.access, open: () => Promise.reject(new Error('cannot reach Kafka')) });
    await clock.tickAsync(10_000);
    assert.deepEqual(lines, []);
    await clock.tickAsync(600_000);
    assert.equal(lines.length, 1);
    assert.match(lines[0] ?? '', /^no worker id from Kafka yet \(cannot reach Kafka\); /);
  });

  it('gives it back at the end, and waits a second for that at most', async () => {
    for (const leave of [async () => {}, () => never]) {
      const fake = fakeAccess({ leave });
      const lease = leaseOf(fake.access);
      await clock.tickAsync(100);
      const closing = lease.close(10_000);
      await clock.tickAsync(1_000);
      await closing;
      assert.deepEqual(fake.calls, ['open', 'join', 'sync', 'leave', 'close']);
      assert.equal(grants.at(-1), undefined);
      await clock.tickAsync(60_000);
      assert.equal(fake.calls.length, 5);
    }
  });

  it('ends at once while a broker hangs, wherever it does', async () => {
    for (const hanging of ['open', 'join', 'sync', 'heartbeat'] as const) {
      const { access, connection } = fakeAccess(hanging === 'open' ? {} : { [hanging]: () => never });
      let isClosed = false;
      const close = (): void => {
        isClosed = true;
      };
      const open = async () => ({ ...connection, close });
      const lease = leaseOf({ ...access, open: hanging === 'open' ? () => never : open });
      await clock.tickAsync(3_500);
      const closing = lease.close(10_000);
      await clock.tickAsync(0);
      await closing;
      assert.equal(isClosed, hanging !== 'open');
    }
  });
});
