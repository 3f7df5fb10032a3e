import assert from 'node:assert/strict';
import fc from 'fast-check';
import { assignWorkerIds, decodeAssignment, encodeClaim } from '../../../../src/adapters/kafka/group.ts';

type WorkerIdClaim = NonNullable<Parameters<typeof encodeClaim>[0]>;

const maxWorkerId = 1023;

function assign(
  claims: Readonly<Record<string, WorkerIdClaim | undefined>>,
): Record<string, number | undefined> {
  const members = Object.entries(claims).map(([memberId, claim]) => ({
    memberId,
    metadata: encodeClaim(claim),
  }));
  const given = assignWorkerIds(members, maxWorkerId);
  return Object.fromEntries(
    given.map(({ memberId, assignment }) => [memberId, decodeAssignment(assignment, maxWorkerId).workerId]),
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

describe('assignWorkerIds', () => {
  it('leaves holders what they have, and gives newcomers the lowest free ones', () => {
    assert.deepEqual(assign({ new2: undefined, b: held(0, 7), new1: undefined, a: held(2, 3) }), {
      ...{ a: 2, b: 0 },
      ...{ new1: 1, new2: 3 },
    });
  });

  it('of two that claim one, leaves it to whoever was given it later: the other was away meanwhile', () => {
    assert.deepEqual(assign({ away: held(5, 6), successor: held(5, 7) }), { away: 0, successor: 5 });
  });

  it('gives back what a member had before, unless somebody holds it', () => {
    assert.deepEqual(assign({ new: undefined, back: wished(0, 9) }), { back: 0, new: 1 });
    assert.deepEqual(assign({ holder: held(0, 2), back: wished(0, 9) }), { holder: 0, back: 1 });
  });

  it('takes what is no claim, or one out of range, for none', () => {
    const metadata = encodeClaim(held(1024, 1));
    const members = [
      { memberId: 'a', metadata: Buffer.from('what else') },
      { memberId: 'b', metadata },
      { memberId: 'c', metadata: Buffer.from([0]) },
    ];
    const given = assignWorkerIds(members, maxWorkerId).map(
      ({ assignment }) => decodeAssignment(assignment, maxWorkerId).workerId,
    );
    assert.ok(given.every((workerId) => workerId !== undefined && workerId <= maxWorkerId));
    assert.equal(new Set(given).size, 3);
  });

  it('has 1,024, and none for the member beyond', () => {
    const names = Array.from({ length: 1025 }, (_, index) => `member-${String(index).padStart(4, '0')}`);
    const given = assign(Object.fromEntries(names.map((name) => [name, undefined])));
    assert.equal(given['member-1023'], 1023);
    assert.equal(given['member-1024'], undefined);
    assert.ok('member-1024' in given);
  });

  it('never gives one to two, whatever they claim and in whichever order, and says the same each time', () => {
    const claim = fc.option(
      fc.record({
        workerId: fc.integer({ min: 0, max: 40 }),
        generation: fc.integer({ min: 0, max: 5 }),
        isHeld: fc.boolean(),
      }),
      { nil: undefined },
    );
    fc.assert(
      fc.property(fc.array(claim, { maxLength: 30 }), fc.infiniteStream(fc.nat()), (claims, order) => {
        const entries = claims.map((each, index) => [`m${index}`, each] as const);
        const given = assign(Object.fromEntries(entries));
        const numbers = Object.values(given);
        assert.equal(new Set(numbers).size, numbers.length);
        const keys = new Map(entries.map(([name]) => [name, order.next().value]));
        const shuffled = entries.toSorted(([a], [b]) => (keys.get(a) ?? 0) - (keys.get(b) ?? 0));
        assert.deepEqual(assign(Object.fromEntries(shuffled)), given);
      }),
    );
  });
});

describe('decodeAssignment', () => {
  for (const [bytes, given] of [
    [[], {}],
    [[0, 0], { workerId: 0 }],
    [[0x03, 0xff], { workerId: 1023 }],
    [[0x04, 0x00], { noWorkerId: '1024' }],
    [[0xff, 0xff], { noWorkerId: '65535' }],
    [[5], { noWorkerId: 'a single byte' }],
    [[0, 5, 0], { noWorkerId: '3 bytes' }],
  ] as const) {
    it(`of [${bytes}] is ${JSON.stringify(given)}`, () => {
      assert.deepEqual(decodeAssignment(Buffer.from(bytes), maxWorkerId), given);
    });
  }
});
