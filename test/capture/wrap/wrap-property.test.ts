import assert from 'node:assert/strict';
import { afterEach, describe, it } from 'mocha';
import { heldOf } from '../../../src/capture/captured-functions.ts';
import { captureNotes, clearCaptureNotes } from '../../../src/capture/report.ts';
import { wrapProperty } from '../../../src/capture/wrap/wrap-property.ts';
import { recordingSlot } from '../recording-slot.ts';

describe('wrapProperty', () => {
  afterEach(clearCaptureNotes);

  it('wraps a method of a prototype, also for this.m() and subclasses', () => {
    class Orders {
      create(id: string) {
        return this.save(id);
      }
      save(id: string) {
        return id;
      }
    }
    class Special extends Orders {}
    const slot = recordingSlot();
    assert.equal(wrapProperty(Orders.prototype, 'save', slot), 'wrapped');
    assert.equal(new Special().create('o1'), 'o1');
    assert.equal(slot.calls, 1);
    assert.ok(slot.seen[0]?.self instanceof Special);
    assert.equal(Object.getOwnPropertyDescriptor(Orders.prototype, 'save')?.enumerable, false);
  });

  it('wraps an inherited method for the owner only', () => {
    class Base {
      save() {
        return 1;
      }
    }
    class Orders extends Base {}
    const slot = recordingSlot();
    assert.equal(wrapProperty(Orders.prototype, 'save', slot), 'wrapped');
    new Base().save();
    assert.equal(slot.calls, 0);
    new Orders().save();
    assert.equal(slot.calls, 1);
  });

  it('keeps the flags of the property', () => {
    for (const flags of [
      { enumerable: true, configurable: true, writable: true },
      { enumerable: false, configurable: true, writable: false },
      { enumerable: true, configurable: false, writable: true },
    ]) {
      const owner = Object.defineProperty({}, 'run', { value: () => 1, ...flags }) as { run: () => number };
      assert.equal(wrapProperty(owner, 'run', recordingSlot()), 'wrapped');
      const { value: _, ...kept } = Object.getOwnPropertyDescriptor(owner, 'run') as PropertyDescriptor;
      assert.deepEqual(kept, flags);
    }
  });

  it('wraps what a getter returns, each function once', () => {
    const implementation = { run: (n: number) => n };
    const owner = {
      get run() {
        return implementation.run;
      },
    };
    const slot = recordingSlot();
    assert.equal(wrapProperty(owner, 'run', slot), 'wrapped');
    assert.equal(owner.run, owner.run);
    assert.equal(owner.run(4), 4);
    implementation.run = (n) => n * 2;
    assert.equal(owner.run(4), 8);
    assert.equal(slot.calls, 2);
    assert.equal(wrapProperty(owner, 'run', slot), 'already');
    const other = recordingSlot({ id: 'other' });
    assert.equal(wrapProperty(owner, 'run', other), 'taken');
  });

  it('passes on a getter that returns no function', () => {
    const owner = {
      get run() {
        return 3;
      },
    };
    wrapProperty(owner, 'run', recordingSlot());
    assert.equal(owner.run, 3);
  });

  it('keeps a setter', () => {
    let stored: () => number = () => 1;
    const owner = {
      get run() {
        return stored;
      },
      set run(value) {
        stored = value;
      },
    };
    const slot = recordingSlot();
    wrapProperty(owner, 'run', slot);
    owner.run = () => 2;
    assert.equal(owner.run(), 2);
    assert.equal(slot.calls, 1);
  });

  it('says what stands in its way, and changes nothing then', () => {
    const slot = recordingSlot();
    const frozen = Object.freeze({ run: () => 1 });
    const getter = Object.defineProperty({}, 'run', { get: () => () => 1, configurable: false });
    const sealed = Object.preventExtensions(Object.create({ run: () => 1 }));
    const writeOnly = {
      set run(_: unknown) {},
    };
    // biome-ignore lint/complexity/noStaticOnlyClass: the very thing
    class PrivateStatics {
      static #n = 1;
      static n = () => PrivateStatics.#n;
    }
    const strict = new Proxy({ run: () => 1 }, { defineProperty: () => false });
    const throwing = new Proxy(
      {},
      {
        getOwnPropertyDescriptor: () => {
          throw new Error('no');
        },
      },
    );
    assert.equal(wrapProperty({}, 'run', slot), 'missing');
    assert.equal(wrapProperty(undefined, 'run', slot), 'missing');
    assert.equal(wrapProperty('text', 'trim', slot), 'missing');
    assert.equal(wrapProperty({}, 'toString', slot), 'missing');
    assert.equal(wrapProperty({ run: 3 }, 'run', slot), 'not a function');
    assert.equal(wrapProperty(writeOnly, 'run', slot), 'not a function');
    assert.equal(wrapProperty(frozen, 'run', slot), 'not configurable');
    assert.equal(wrapProperty(getter, 'run', slot), 'not configurable');
    assert.equal(wrapProperty(sealed, 'run', slot), 'not configurable');
    assert.equal(wrapProperty(strict, 'run', slot), 'not configurable');
    assert.equal(wrapProperty(throwing, 'run', slot), 'not configurable');
    assert.equal(wrapProperty({ PrivateStatics }, 'PrivateStatics', slot), 'not wrappable');
    assert.equal(frozen.run(), 1);
    assert.equal(slot.calls, 0);
  });

  it('tells a second target from the same one', () => {
    const owner = { run: () => 1 };
    const slot = recordingSlot();
    const decorated = recordingSlot({ id: 'Owner.run', origin: 'decorator' });
    assert.equal(wrapProperty(owner, 'run', decorated), 'wrapped');
    assert.equal(wrapProperty(owner, 'run', slot), 'wrapped');
    assert.equal(wrapProperty(owner, 'run', slot), 'already');
    assert.equal(wrapProperty(owner, 'run', decorated), 'taken');
    assert.equal(wrapProperty(owner, 'run', recordingSlot({ id: 'other' })), 'taken');
    owner.run();
    assert.deepEqual([slot.calls, decorated.calls], [1, 0]);
    assert.equal(heldOf(owner.run)?.slot, slot);
    assert.equal(captureNotes().length, 2);
  });
});
