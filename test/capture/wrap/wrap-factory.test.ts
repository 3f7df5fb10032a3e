import assert from 'node:assert/strict';
import { describe, it } from 'mocha';
import { wrapFunction } from '../../../src/capture/wrap/wrap.ts';
import { wrapFactory } from '../../../src/capture/wrap/wrap-property.ts';
import { recordingSlot } from '../recording-slot.ts';

const createRepository = (name: string) => ({ name, insert: (row: number) => row, find: () => name });

describe('wrapFactory', () => {
  it('captures the method of every object, each call once', () => {
    const slot = recordingSlot();
    const create = wrapFactory(createRepository, { insert: slot });
    const [a, b] = [create('a'), create('b')];
    assert.equal(a.insert(1), 1);
    b.insert(2);
    b.find();
    assert.equal(slot.calls, 2);
    assert.equal(slot.seen[0]?.self, a);
    assert.equal(create.name, 'createRepository');
    assert.equal(create.length, 1);
    assert.equal(create.toString(), createRepository.toString());
  });

  it('wraps an object that is handed out twice once', () => {
    const slot = recordingSlot();
    const single = createRepository('one');
    const get = wrapFactory(() => single, { insert: slot });
    const { insert } = get();
    assert.equal(get().insert, insert);
    insert(1);
    assert.equal(slot.calls, 1);
  });

  it('follows promises and lazy thenables', async () => {
    const slot = recordingSlot();
    const open = wrapFactory(async () => createRepository('a'), { insert: slot });
    (await open()).insert(1);
    assert.equal(slot.calls, 1);
    let runs = 0;
    const lazy = wrapFactory(
      () => ({
        // biome-ignore lint/suspicious/noThenProperty: the very thing
        then(onValue: (value: ReturnType<typeof createRepository>) => unknown) {
          runs++;
          return Promise.resolve(createRepository('b')).then(onValue);
        },
      }),
      { insert: slot },
    );
    const pending = lazy();
    assert.equal(runs, 0);
    const repository = (await (pending as unknown)) as ReturnType<typeof createRepository>;
    repository.insert(2);
    assert.equal(runs, 1);
    assert.equal(slot.calls, 2);
    await assert.rejects(
      wrapFactory(
        async () => {
          throw new Error('down');
        },
        { insert: slot },
      )(),
      /down/,
    );
  });

  it('captures methods of classes on the instance, and of what is constructed', () => {
    class Client {
      #sent = 0;
      send() {
        return ++this.#sent;
      }
    }
    const slot = recordingSlot();
    const make = wrapFactory(() => new Client(), { send: slot });
    const client = make();
    assert.equal(client.send(), 1);
    assert.deepEqual(Object.keys(client), []);
    const Wrapped = wrapFactory(Client, { send: slot });
    const constructed = new Wrapped();
    assert.equal(constructed.send(), 1);
    assert.ok(constructed instanceof Wrapped);
    assert.equal(slot.calls, 2);
    assert.equal(new Client().send(), 1);
    assert.equal(slot.calls, 2, 'other instances are not the factory’s');
  });

  it('takes a path, and the empty name for a returned function', () => {
    const slot = recordingSlot();
    const make = wrapFactory(() => ({ orders: { create: () => 1 } }), { 'orders.create': slot });
    make().orders.create();
    const handler = () => 2;
    const curry = wrapFactory(() => handler, { '': slot });
    assert.equal(curry(), curry());
    assert.equal(curry()(), 2);
    assert.equal(slot.calls, 2);
  });

  it('reports each outcome once', () => {
    const told: string[] = [];
    const report = (method: string, result: string) => told.push(`${method} ${result}`);
    const methods = {
      insert: recordingSlot(),
      gone: recordingSlot({ id: 'gone' }),
      '': recordingSlot({ id: 'fn' }),
    };
    const make = wrapFactory(
      (freeze: boolean) => (freeze ? Object.freeze(createRepository('f')) : createRepository('a')),
      methods,
      report,
    );
    make(false);
    make(false);
    assert.equal(make(true).insert(3), 3);
    assert.deepEqual(told, ['insert wrapped', 'gone missing', ' not a function', 'insert not configurable']);
    assert.equal(methods.insert.calls, 0);
  });

  it('leaves values alone that are no objects', () => {
    assert.equal(wrapFactory(() => 3, { insert: recordingSlot() })(), 3);
    assert.equal(wrapFactory(() => null, { insert: recordingSlot() })(), null);
    assert.equal(wrapFactory(3 as never, {}), 3);
  });

  it('adds methods to a factory that is wrapped already, and lives beside a captured one', () => {
    const [insert, find, factory] = [
      recordingSlot(),
      recordingSlot({ id: 'find' }),
      recordingSlot({ id: 'factory' }),
    ];
    const first = wrapFactory(createRepository, { insert });
    assert.equal(wrapFactory(first, { find }), first);
    const both = wrapFunction(first, factory);
    assert.equal(wrapFactory(both, { insert }), both);
    const repository = both('a');
    repository.insert(1);
    repository.find();
    assert.deepEqual([insert.calls, find.calls, factory.calls], [1, 1, 1]);
  });
});
