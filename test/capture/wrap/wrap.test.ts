import assert from 'node:assert/strict';
import { types } from 'node:util';
import { afterEach, describe, it } from 'mocha';
import 'reflect-metadata';
import { heldOf, undeclared } from '../../../src/capture/captured-functions.ts';
import { notesAbout } from '../../../src/capture/report.ts';
import { wrapFunction } from '../../../src/capture/wrap/wrap.ts';
import { wrapFactory } from '../../../src/capture/wrap/wrap-property.ts';
import { runOwnWork, startOwnWork } from '../../../src/ground/lifecycle.ts';
import { assertPrecedes, forgetNotes } from '../notes.ts';
import { recordingSlot } from '../recording-slot.ts';

describe('wrapFunction: what an application sees', () => {
  afterEach(forgetNotes);

  it('calls through with this, arguments and result', () => {
    const slot = recordingSlot();
    const owner = {
      base: 2,
      add: wrapFunction(function (this: { base: number }, a: number, ...more: number[]) {
        return this.base + a + more.length;
      }, slot),
    };
    assert.equal(owner.add(3, 0, 0), 7);
    assert.equal(slot.calls, 1);
    const [call] = slot.seen;
    assert.equal(call?.self, owner);
    assert.deepEqual(call?.args, [3, 0, 0]);
    assert.equal(call?.result, 7);
    assert.equal(call?.error, undefined);
    assert.equal(call?.canWait, false);
    assert.equal('context' in (call ?? {}), false);
  });

  it('only calls the function while capture is off, and counts nothing', () => {
    const slot = recordingSlot();
    const wrapped = wrapFunction((a: number) => a * 2, slot);
    const { onCall } = slot;
    slot.onCall = null;
    assert.equal(wrapped(2), 4);
    assert.equal(slot.calls, 0);
    slot.onCall = onCall;
    assert.equal(wrapped(3), 6);
    assert.equal(slot.calls, 1);
  });

  it('passes undefined as this, which a sloppy function reads as the global object', () => {
    const sloppy = new Function('return this === globalThis') as () => boolean;
    assert.equal(wrapFunction(sloppy, recordingSlot())(), true);
    const strict = function (this: unknown) {
      return this;
    };
    const wrapped = wrapFunction(strict, recordingSlot()) as () => unknown;
    assert.equal(wrapped(), undefined);
  });

  it('keeps name, length and own properties', () => {
    function createOrder(_a: unknown, _b: unknown, _c = 1) {}
    createOrder.displayName = 'Create';
    const hidden = Symbol('hidden');
    Object.defineProperty(createOrder, hidden, { value: 1, enumerable: false });
    const wrapped = wrapFunction(createOrder, recordingSlot());
    assert.equal(wrapped.name, 'createOrder');
    assert.equal(wrapped.length, 2);
    assert.equal(wrapped.displayName, 'Create');
    assert.deepEqual(Object.keys(wrapped), ['displayName']);
    assert.equal(Object.getOwnPropertyDescriptor(wrapped, hidden)?.enumerable, false);
  });

  it('shares mutable own state with the function, both ways', () => {
    const inner = function count(): number {
      // biome-ignore lint/suspicious/noAssignInExpressions: one line of application code
      return ((count as unknown as { n: number }).n += 1);
    } as (() => number) & { n: number };
    inner.n = 0;
    const wrapped = wrapFunction(inner, recordingSlot());
    wrapped();
    assert.equal(wrapped.n, 1);
    wrapped.n = 10;
    assert.equal(wrapped(), 11);
  });

  it('gives the text of the function, and of a subclass its own', () => {
    const f = (order: { id: string }) => order.id;
    assert.equal(wrapFunction(f, recordingSlot()).toString(), f.toString());
    assert.equal(`${wrapFunction(f, recordingSlot())}`, f.toString());
    class Base {}
    const Wrapped = wrapFunction(Base, recordingSlot());
    class Sub extends Wrapped {
      x = 1;
    }
    assert.match(Wrapped.toString(), /^class Base/);
    assert.match(Sub.toString(), /^class Sub/);
    const custom = Object.assign(() => {}, { toString: () => 'mine' });
    assert.equal(wrapFunction(custom, recordingSlot()).toString(), 'mine');
  });

  it('looks async where the function is: frameworks ask', () => {
    const wrapped = wrapFunction(async () => 1, recordingSlot());
    assert.equal(wrapped.constructor.name, 'AsyncFunction');
    assert.equal(Object.prototype.toString.call(wrapped), '[object AsyncFunction]');
    const again = wrapFactory(wrapped, { f: recordingSlot() });
    assert.equal(types.isAsyncFunction(wrapped), true);
    assert.equal(types.isAsyncFunction(again), true);
    assert.equal(types.isGeneratorFunction(wrapped), false);
    assert.equal(Function.prototype.toString.call(again), 'async () => 1');
  });

  it('is no constructor where the function is none', () => {
    for (const f of [() => 1, async () => 1, { m() {} }.m]) {
      const wrapped = wrapFunction(f, recordingSlot()) as unknown as new () => unknown;
      assert.equal('prototype' in wrapped, false);
      assert.throws(() => new wrapped(), TypeError);
    }
  });

  it('leaves alone what is no function', () => {
    assert.equal(wrapFunction(3 as never, recordingSlot()), 3);
  });

  it('keeps call, apply and bind working', () => {
    const wrapped = wrapFunction(function (this: unknown, a: number) {
      return [this, a];
    }, recordingSlot());
    assert.deepEqual(wrapped.call('x', 1), ['x', 1]);
    assert.deepEqual(wrapped.apply('y', [2]), ['y', 2]);
    assert.deepEqual(wrapped.bind('z')(3), ['z', 3]);
  });

  it('wraps bound functions and proxies', () => {
    const bound = wrapFunction(
      function (this: { n: number }) {
        return this.n;
      }.bind({ n: 5 }),
      recordingSlot(),
    );
    assert.equal(bound(), 5);
    const slot = recordingSlot();
    const proxied = wrapFunction(new Proxy(() => 1, { apply: () => 2 }), slot);
    assert.equal(proxied(), 2);
    assert.equal(slot.calls, 1);
  });

  describe('classes', () => {
    it('constructs, keeps instanceof, statics and new.target', () => {
      class Order {
        static made = 0;
        static of(id: string) {
          return new Order(id);
        }
        readonly isDirect: boolean;
        constructor(readonly_id: string) {
          this.id = readonly_id;
          this.isDirect = new.target === Order;
          Order.made++;
        }
        id: string;
      }
      const slot = recordingSlot();
      const Wrapped = wrapFunction(Order, slot);
      const order = new Wrapped('o1');
      assert.ok(order instanceof Wrapped);
      assert.ok(order instanceof Order);
      assert.equal(order.constructor, Wrapped);
      assert.equal(order.isDirect, true);
      assert.equal(Wrapped.made, 1);
      assert.equal(Wrapped.of('o2').id, 'o2');
      assert.equal(slot.seen.length, 1, 'inside the class, its name is the class itself');
      assert.equal(slot.seen[0]?.result, order);
      assert.equal(slot.seen[0]?.self, order);
      assert.deepEqual(slot.seen[0]?.args, ['o1']);
      assert.throws(() => (Wrapped as unknown as () => void)(), TypeError);
    });

    it('can be extended', () => {
      class Base {
        static kind = 'base';
        hello() {
          return `hello ${this.constructor.name}`;
        }
      }
      const slot = recordingSlot();
      class Sub extends wrapFunction(Base, slot) {
        #secret = 7;
        secret() {
          return this.#secret;
        }
      }
      const sub = new Sub();
      assert.equal(sub.hello(), 'hello Sub');
      assert.equal(sub.secret(), 7);
      assert.equal(Sub.kind, 'base');
      assert.ok(sub instanceof Base);
      assert.equal(slot.seen[0]?.result, sub);
      assert.equal(heldOf(Sub)?.slot, undefined, 'a subclass is not captured itself');
    });

    it('follows a prototype that is replaced after wrapping', () => {
      const Old = function (this: { x: number }) {
        this.x = 1;
      } as unknown as { new (): { x: number; hi?: () => number }; prototype: object };
      const Wrapped = wrapFunction(Old, recordingSlot());
      Wrapped.prototype = { hi: () => 2 };
      const made = new Wrapped();
      assert.equal(made.hi?.(), 2);
      assert.ok(made instanceof Wrapped);
    });

    it('tells of a constructor that throws in phase AFTER only', () => {
      class Broken {
        constructor() {
          throw new Error('no');
        }
      }
      const after = recordingSlot({ phase: 'AFTER' });
      assert.throws(() => new (wrapFunction(Broken, after))(), /no/);
      assert.match(String(after.seen[0]?.error), /no/);
      assert.equal(after.seen[0]?.result, null);
      const returning = recordingSlot();
      assert.throws(() => new (wrapFunction(Broken, returning))(), /no/);
      assert.equal(returning.seen.length, 0);
    });

    it('constructs without capturing while it is off', () => {
      const slot = recordingSlot();
      slot.onCall = null;
      const Wrapped = wrapFunction(class {}, slot);
      assert.ok(new Wrapped() instanceof Wrapped);
      assert.equal(slot.calls, 0);
    });

    it('leaves a class with private static members as it is, with a note', () => {
      // biome-ignore lint/complexity/noStaticOnlyClass: the very thing
      class Counter {
        static #n = 0;
        static next() {
          // biome-ignore lint/complexity/noThisInStatic: the very thing
          return ++this.#n;
        }
      }
      const slot = recordingSlot();
      const same = wrapFunction(Counter, slot);
      assert.equal(same, Counter);
      assert.equal(same.next(), 1);
      assert.match(notesAbout(slot.plan.id)[0] ?? '', /private static/);
    });
  });

  describe('reflect-metadata', () => {
    it('finds metadata defined before and after wrapping', () => {
      const f = () => {};
      Reflect.defineMetadata('path', '/orders', f);
      const wrapped = wrapFunction(f, recordingSlot());
      assert.equal(Reflect.getMetadata('path', wrapped), '/orders');
      assert.equal(Reflect.getOwnMetadata('path', wrapped), '/orders');
      Reflect.defineMetadata('guard', 1, wrapped);
      assert.equal(Reflect.getOwnMetadata('guard', wrapped), 1);
      class Controller {
        handle() {}
      }
      Reflect.defineMetadata('design:paramtypes', [String], Controller);
      assert.deepEqual(Reflect.getMetadata('design:paramtypes', wrapFunction(Controller, recordingSlot())), [
        String,
      ]);
    });
  });

  describe('own work', () => {
    it('is not captured', async () => {
      const slot = recordingSlot();
      const wrapped = wrapFunction(async () => 1, slot);
      runOwnWork(() => void wrapped());
      await startOwnWork(async () => {
        await wrapped();
        await wrapped();
      });
      assert.equal(slot.calls, 0);
      await wrapped();
      assert.equal(slot.calls, 1);
    });

    it('covers what runs while an event is made', () => {
      const inner = recordingSlot();
      const helper = wrapFunction(() => 'x', inner);
      const outer = recordingSlot({}, () => {
        helper();
        return undefined;
      });
      wrapFunction(() => helper(), outer)();
      assert.equal(outer.calls, 1);
      assert.equal(inner.calls, 1, 'called by the application once, by the payload once');
    });
  });

  describe('two targets for one function', () => {
    it('hands a wrapper back for the same target', () => {
      const slot = recordingSlot();
      const wrapped = wrapFunction(() => 1, slot);
      assert.equal(wrapFunction(wrapped, slot), wrapped);
      wrapped();
      assert.equal(slot.calls, 1);
      assert.deepEqual(notesAbout(slot.plan.id), []);
    });

    it('serves the slot of a later start in place of the dead one', () => {
      const wrapped = wrapFunction(() => 1, recordingSlot());
      const second = recordingSlot();
      assert.equal(wrapFunction(wrapped, second), wrapped);
      assert.equal(heldOf(wrapped)?.slot, second);
      assert.deepEqual(notesAbout(second.plan.id), []);
    });

    it('looks through the wrappers of other tools', () => {
      const slot = recordingSlot();
      const wrapped = wrapFunction(() => 1, slot);
      const shimmed = Object.assign(() => wrapped(), { __original: wrapped });
      assert.equal(wrapFunction(shimmed, slot), shimmed);
      shimmed();
      assert.equal(slot.calls, 1);
    });

    for (const origin of ['decorator', 'publishEvent'] as const) {
      it(`lets a configured target take over from ${origin}`, () => {
        const code = recordingSlot({ id: 'Orders.create', origin });
        const configured = recordingSlot();
        const wrapped = wrapFunction(() => 1, code);
        assert.equal(wrapFunction(wrapped, configured), wrapped);
        wrapped();
        assert.deepEqual([code.calls, configured.calls], [0, 1]);
        assert.equal(heldOf(wrapped)?.slot, configured);
        assertPrecedes('src/orders.ts#create', 'Orders.create');
      });

      it(`keeps a configured target when ${origin} comes second`, () => {
        const code = recordingSlot({ id: 'Orders.create', origin });
        const configured = recordingSlot();
        const wrapped = wrapFunction(
          wrapFunction(() => 1, configured),
          code,
        );
        wrapped();
        assert.deepEqual([code.calls, configured.calls], [0, 1]);
        assertPrecedes('src/orders.ts#create', 'Orders.create');
      });
    }

    it('keeps the first of two configured targets and says so', () => {
      const first = recordingSlot();
      const second = recordingSlot({ id: 'src/orders.ts#alias' });
      const wrapped = wrapFunction(
        wrapFunction(() => 1, first),
        second,
      );
      wrapped();
      assert.deepEqual([first.calls, second.calls], [1, 0]);
      assert.equal(heldOf(wrapped)?.slot, first);
      assertPrecedes('src/orders.ts#create', 'src/orders.ts#alias');
    });

    it('says nothing about a declaration that is not made yet', () => {
      const slot = recordingSlot();
      const wrapped = wrapFunction(
        wrapFunction(() => 1, undeclared),
        slot,
      );
      wrapped();
      assert.equal(slot.calls, 1);
      assert.deepEqual(notesAbout(slot.plan.id), []);
    });
  });
});
