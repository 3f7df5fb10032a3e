import assert from 'node:assert/strict';
import { afterEach, describe, it } from 'mocha';
import { heldOf } from '../../../src/capture/captured-functions.ts';
import { notesAbout } from '../../../src/capture/report.ts';
import { forgetNotes } from '../notes.ts';
import { recordingSlot } from '../recording-slot.ts';
import { wrapMember } from '../wrap-member.ts';

describe('a captured property', () => {
  afterEach(forgetNotes);

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
    assert.equal(wrapMember(Orders.prototype, 'save', slot), 'wrapped');
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
    assert.equal(wrapMember(Orders.prototype, 'save', slot), 'wrapped');
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
      assert.equal(wrapMember(owner, 'run', recordingSlot()), 'wrapped');
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
    assert.equal(wrapMember(owner, 'run', slot), 'wrapped');
    assert.equal(owner.run, owner.run);
    assert.equal(owner.run(4), 4);
    implementation.run = (n) => n * 2;
    assert.equal(owner.run(4), 8);
    assert.equal(slot.calls, 2);
    assert.equal(wrapMember(owner, 'run', slot), undefined);
    const other = recordingSlot({ id: 'other' });
    assert.equal(wrapMember(owner, 'run', other), 'taken');
  });

  it('passes on a getter that returns no function', () => {
    const owner = {
      get run() {
        return 3;
      },
    };
    wrapMember(owner, 'run', recordingSlot());
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
    wrapMember(owner, 'run', slot);
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
    assert.equal(wrapMember({}, 'run', slot), 'missing');
    assert.equal(wrapMember(undefined, 'run', slot), 'missing');
    assert.equal(wrapMember('text', 'trim', slot), 'missing');
    assert.equal(wrapMember({}, 'toString', slot), 'missing');
    assert.equal(wrapMember({ run: 3 }, 'run', slot), 'not a function');
    assert.equal(wrapMember(writeOnly, 'run', slot), 'not a function');
    assert.equal(wrapMember(frozen, 'run', slot), 'not configurable');
    assert.equal(wrapMember(getter, 'run', slot), 'not configurable');
    assert.equal(wrapMember(sealed, 'run', slot), 'not configurable');
    assert.equal(wrapMember(strict, 'run', slot), 'not configurable');
    assert.equal(wrapMember(throwing, 'run', slot), 'not configurable');
    assert.equal(wrapMember({ PrivateStatics }, 'PrivateStatics', slot), 'not wrappable');
    assert.equal(frozen.run(), 1);
    assert.equal(slot.calls, 0);
  });

  it('tells a second target from the same one', () => {
    const owner = { run: () => 1 };
    const slot = recordingSlot();
    const decorated = recordingSlot({ id: 'Owner.run', origin: 'decorator' });
    assert.equal(wrapMember(owner, 'run', decorated), 'wrapped');
    assert.equal(wrapMember(owner, 'run', slot), 'wrapped');
    assert.equal(wrapMember(owner, 'run', slot), undefined);
    assert.equal(wrapMember(owner, 'run', decorated), 'taken');
    assert.equal(wrapMember(owner, 'run', recordingSlot({ id: 'other' })), 'taken');
    owner.run();
    assert.deepEqual([slot.calls, decorated.calls], [1, 0]);
    assert.equal(heldOf(owner.run)?.slot, slot);
    assert.deepEqual(
      notesAbout(slot.plan.id).map((note) => note.replace(/^.*: /, '')),
      ['src/orders.ts#create before Owner.run', 'src/orders.ts#create before other'],
    );
  });
});
