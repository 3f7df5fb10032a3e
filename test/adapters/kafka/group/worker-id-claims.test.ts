import assert from 'node:assert/strict';
import fc from 'fast-check';
import {
  createGroupLease,
  type createKafkaGroup,
  groupRefusals,
} from '../../../../src/adapters/kafka/group.ts';
import { useLogger } from '../../../support/log.ts';
import { kafkaOptions } from '../kafka-options.ts';

type GroupAccess = ReturnType<typeof createKafkaGroup>;
type GroupConnection = Awaited<ReturnType<GroupAccess['open']>>;
type Assignments = Parameters<GroupConnection['sync']>[1];

/** What a lease makes of one round: it joins these members, sends assignments, and gets the answer to them. */
async function round(members: readonly { memberId: string; metadata: Buffer }[], answer = Buffer.alloc(0)) {
  const sent = Promise.withResolvers<Assignments>();
  const lines: string[] = [];
  const log = (line: string): void => void lines.push(line);
  const connection: GroupConnection = {
    join: async () => ({ memberId: 'leader', generation: 1, members }),
    async sync(_, assignments) {
      sent.resolve(assignments);
      return answer;
    },
    heartbeat: async () => {},
    leave: async () => {},
    close: () => {},
  };
  useLogger({ debug() {}, info: log, warn: log, error: log });
  const lease = createGroupLease({
    access: { open: async () => connection, errorName: () => undefined, describe: String },
    ...{ group: 'svc-workers', clock: { now: () => 0, monotonic: () => 0 } },
    refusals: groupRefusals('svc-workers', kafkaOptions(['kafka:9092'])),
  });
  const granted = new Promise<number | undefined>((resolve) =>
    lease.start((grant) => resolve(grant?.workerId)),
  );
  const assignments = await sent.promise;
  const workerId = await granted;
  await lease.close(0);
  return { assignments, workerId, lines };
}

interface WorkerIdClaim {
  readonly workerId: number;
  readonly generation: number;
  readonly isHeld: boolean;
}

function bytesOf(claim: WorkerIdClaim | undefined): Buffer {
  if (claim === undefined) return Buffer.alloc(0);
  const bytes = Buffer.alloc(7);
  bytes.writeUInt16BE(claim.workerId, 0);
  bytes.writeInt32BE(claim.generation, 2);
  bytes.writeUInt8(Number(claim.isHeld), 6);
  return bytes;
}

const workerIdIn = (assignment: Buffer): number | undefined =>
  assignment.length === 0 ? undefined : assignment.readUInt16BE(0);

async function assign(
  claims: Readonly<Record<string, WorkerIdClaim | undefined>>,
): Promise<Record<string, number | undefined>> {
  const members = Object.entries(claims).map(([memberId, claim]) => ({ memberId, metadata: bytesOf(claim) }));
  const { assignments } = await round(members);
  return Object.fromEntries(
    assignments.map(({ memberId, assignment }) => [memberId, workerIdIn(assignment)]),
  );
}

const held = (workerId: number, generation: number): WorkerIdClaim => ({
  workerId,
  generation,
  isHeld: true,
});
const wished = (workerId: number, generation: number): WorkerIdClaim => ({
  ...held(workerId, generation),
  isHeld: false,
});

describe('the worker ids that a leader assigns', () => {
  it('leaves holders what they have, and gives newcomers the lowest free ones', async () => {
    assert.deepEqual(await assign({ new2: undefined, b: held(0, 7), new1: undefined, a: held(2, 3) }), {
      ...{ a: 2, b: 0 },
      ...{ new1: 1, new2: 3 },
    });
  });

  it('of two that claim one, leaves it to whoever was given it later: the other was away meanwhile', async () => {
    assert.deepEqual(await assign({ away: held(5, 6), successor: held(5, 7) }), { away: 0, successor: 5 });
  });

  it('gives back what a member had before, unless somebody holds it', async () => {
    assert.deepEqual(await assign({ new: undefined, back: wished(0, 9) }), { back: 0, new: 1 });
    assert.deepEqual(await assign({ holder: held(0, 2), back: wished(0, 9) }), { holder: 0, back: 1 });
  });

  it('takes what is no claim, or one out of range, for none', async () => {
    const metadata = bytesOf(held(1024, 1));
    const members = [
      { memberId: 'a', metadata: Buffer.from('what else') },
      { memberId: 'b', metadata },
      { memberId: 'c', metadata: Buffer.from([0]) },
    ];
    const given = (await round(members)).assignments.map(({ assignment }) => workerIdIn(assignment));
    assert.ok(given.every((workerId) => workerId !== undefined && workerId <= 1023));
    assert.equal(new Set(given).size, 3);
  });

  it('has 1,024, and none for the member beyond', async () => {
    const names = Array.from({ length: 1025 }, (_, index) => `member-${String(index).padStart(4, '0')}`);
    const given = await assign(Object.fromEntries(names.map((name) => [name, undefined])));
    assert.equal(given['member-1023'], 1023);
    assert.equal(given['member-1024'], undefined);
    assert.ok('member-1024' in given);
  });

  it('never gives one to two, whatever they claim and in whichever order, and says the same each time', async () => {
    const claim = fc.option(
      fc.record({
        workerId: fc.integer({ min: 0, max: 40 }),
        generation: fc.integer({ min: 0, max: 5 }),
        isHeld: fc.boolean(),
      }),
      { nil: undefined },
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(claim, { maxLength: 30 }),
        fc.infiniteStream(fc.nat()),
        async (claims, order) => {
          const entries = claims.map((each, index) => [`m${index}`, each] as const);
          const given = await assign(Object.fromEntries(entries));
          const numbers = Object.values(given);
          assert.equal(new Set(numbers).size, numbers.length);
          const keys = new Map(entries.map(([name]) => [name, order.next().value]));
          const shuffled = entries.toSorted(([a], [b]) => (keys.get(a) ?? 0) - (keys.get(b) ?? 0));
          assert.deepEqual(await assign(Object.fromEntries(shuffled)), given);
        },
      ),
    );
  });
});

describe('an assignment of a leader', () => {
  for (const [bytes, workerId, said] of [
    [[], undefined, 'all 1,024 worker ids of the group "svc-workers" are taken'],
    [[0, 0], 0, undefined],
    [[0x03, 0xff], 1023, undefined],
    [[0x04, 0x00], undefined, 'gave this process 1024, which is not a worker id'],
    [[0xff, 0xff], undefined, 'gave this process 65535, which is not a worker id'],
    [[5], undefined, 'gave this process a single byte, which is not a worker id'],
    [[0, 5, 0], undefined, 'gave this process 3 bytes, which is not a worker id'],
  ] as const) {
    it(`of [${bytes}] gives ${workerId ?? 'none, and a line'}`, async () => {
      const given = await round([], Buffer.from(bytes));
      assert.equal(given.workerId, workerId);
      assert.equal(given.lines.length, said === undefined ? 0 : 1);
      assert.ok(
        given.lines.every((line) => line.includes(said ?? '')),
        given.lines.join(),
      );
    });
  }
});
