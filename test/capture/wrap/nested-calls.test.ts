import assert from 'node:assert/strict';
import type { Call, CapturePlan } from '../../../src/capture/call.ts';
import { doubledCalls, notesAbout } from '../../../src/capture/report.ts';
import { wrapFunction } from '../../../src/capture/wrap/wrap.ts';
import { forgetNotes } from '../notes.ts';
import { recordingSlot, turn } from '../recording-slot.ts';

type Work = (...args: never[]) => unknown;
interface Order {
  readonly id: string;
}

let count = 0;
let told: { line: string; isLikely: boolean }[] = [];

/** Captures a function as a target of its own, and tells of its events as svc does. */
function captured<F extends Work>(work: F, eventType: string, plan: Partial<CapturePlan> = {}): F {
  const slot = recordingSlot(
    { id: `target${++count}`, eventType, key: ({ result }) => (result as Order | undefined)?.id, ...plan },
    ({ nest, plan: { key }, ...call }: Call) => {
      if (nest !== undefined) told.push(...doubledCalls.inside(nest, key?.(call)));
      return undefined;
    },
  );
  return wrapFunction(work, slot);
}

const order: Order = { id: 'order-1' };
const likely = [true];
const possible = [false];
const none: boolean[] = [];

describe('captured functions that call each other', () => {
  beforeEach(() => {
    told = [];
    forgetNotes();
  });

  /** The types and keys of a service's event and that of what it calls; whether it is told, and as what. */
  const pairs: [outer: string, key: string | undefined, inner: string, key: string | undefined, boolean[]][] =
    [
      ['ORDER_CREATED', 'order-1', 'ORDER_CREATED', 'order-1', likely],
      ['ORDER_CREATED', undefined, 'ORDER_CREATED', undefined, likely],
      ['ORDER_CREATED', 'order-1', 'ORDER_CREATED', 'line-7', likely],
      ['ORDER_CREATED', 'order-1', 'ORDER_INSERTED', 'order-1', likely],
      ['OrderCreated', '17', 'OrderInserted', '17', likely],
      ['ORDER_CREATED', 'order-1', 'STOCK_RESERVED', 'order-1', possible],
      // Two tables that count from 1.
      ['ORDER_CREATED', '17', 'STOCK_RESERVED', '17', none],
      ['ORDER_CREATED', 'order-1', 'ORDER_INSERTED', 'order-2', none],
      ['ORDER_CREATED', 'order-1', 'STOCK_RESERVED', 'item-3', none],
      ['ORDER_CREATED', undefined, 'STOCK_RESERVED', undefined, none],
      ['ORDER_CREATED', undefined, 'STOCK_RESERVED', 'order-1', none],
    ];
  for (const [outerType, outerKey, innerType, innerKey, expected] of pairs)
    for (const kind of ['sync', 'async', 'behind an await'] as const)
      it(`${outerType} ${outerKey} around ${innerType} ${innerKey}, ${kind}`, async () => {
        const insert = captured(kind === 'sync' ? () => order : async () => order, innerType, {
          key: () => innerKey,
        });
        const create = captured(
          kind === 'sync'
            ? () => insert()
            : async () => {
                if (kind === 'behind an await') await turn();
                return await insert();
              },
          outerType,
          { key: () => outerKey },
        );
        for (let index = 0; index < 3; index++) await create();
        assert.deepEqual(
          told.map(({ isLikely }) => isLikely),
          expected,
        );
        const [inner, outer] = [notesAbout(`target${count - 1}`), notesAbout(`target${count}`)];
        assert.deepEqual([inner.length, outer.length], [0, expected.length]);
      });

  it('are named, with both events and what to do', async () => {
    const insert = captured(async () => order, 'ORDER_INSERTED', { id: 'src/repo.ts#insert' });
    await captured(async () => await insert(), 'ORDER_CREATED', { id: 'src/service.ts#create' })();
    assert.deepEqual(
      told.map(({ line }) => line),
      [
        'src/service.ts#create called src/repo.ts#insert: one call made two events, ORDER_CREATED and ORDER_INSERTED, with the same key. Keep one of them, usually the target in the service, unless you want both events',
      ],
    );
  });

  it('are told through a third one, and each pair once', async () => {
    const row = captured(async () => order, 'ORDER_CREATED');
    const insert = captured(async () => await row(), 'ORDER_CREATED');
    const create = captured(async () => await insert(), 'ORDER_CREATED');
    await Promise.all([create(), create()]);
    assert.equal(told.length, 3);
  });

  const apart: Record<string, (insert: () => Promise<Order>) => Promise<unknown>> = {
    'one behind the other': async (insert) => {
      await captured(async () => order, 'ORDER_CREATED')();
      await insert();
    },
    'side by side': async (insert) => {
      const create = captured(async () => {
        await turn();
        return order;
      }, 'ORDER_CREATED');
      await Promise.all([create(), insert()]);
    },
    'from the caller of both, which is not captured': async (insert) => {
      const create = captured(() => order, 'ORDER_CREATED');
      create();
      await turn();
      await insert();
    },
    'from what an earlier call has started and nobody waits for': async (insert) => {
      let later: Promise<unknown> | undefined;
      await captured(async () => {
        later = turn().then(turn).then(insert);
        return order;
      }, 'ORDER_CREATED')();
      await later;
    },
    'from a call that failed': async (insert) => {
      const create = captured(async () => {
        await insert();
        throw new Error('sold out');
      }, 'ORDER_CREATED');
      await create().catch(() => {});
    },
    'a function that calls itself': async () => {
      const create: (depth: number) => Promise<Order> = captured(
        async (depth: number) => (depth === 0 ? order : await create(depth - 1)),
        'ORDER_CREATED',
      );
      await create(3);
    },
  };
  for (const [name, run] of Object.entries(apart))
    it(`are no pair: ${name}`, async () => {
      await run(captured(async () => order, 'ORDER_CREATED'));
      assert.deepEqual(told, []);
    });

  it('are looked at in the first calls of each, also where the inner one was called often before', async () => {
    const insert = captured(async () => order, 'ORDER_CREATED');
    for (let index = 0; index < 20_000; index++) await insert();
    await captured(async () => await insert(), 'ORDER_CREATED')();
    assert.equal(told.length, 1);
  });
});
