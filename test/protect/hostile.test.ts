import assert from 'node:assert/strict';
import fc from 'fast-check';
import { SvcError } from '../../src/ground/errors.ts';
import { PiiField } from '../../src/protect/marks/policy.ts';
import { publishes, refuses } from './protecting.ts';

const secret = 'john.doe@gmail.com';
const shown = 'jo******@gm***.com';

class Person {
  email = secret;
}

/** What an application can put around a value; `flipping` gives it only when it is asked a second time. */
const wrappers: Readonly<Record<string, (inner: unknown) => unknown>> = {
  object: (inner) => ({ a: inner }),
  'object without prototype': (inner) => Object.assign(Object.create(null), { a: inner }),
  'own key __proto__': (inner) =>
    Object.defineProperty({}, '__proto__', { value: inner, enumerable: true, writable: true }),
  'object beside a big number': (inner) => ({ a: 1n, b: inner }),
  array: (inner) => [inner],
  'sparse array': (inner) => Object.assign([], { 3: inner }),
  'array with more properties': (inner) => Object.assign([1], { more: inner }),
  map: (inner) => new Map([['a', inner]]),
  set: (inner) => new Set([inner]),
  getter: (inner) => ({
    get a() {
      return inner;
    },
  }),
  'flipping getter': (inner) => {
    let reads = 0;
    return {
      first: 1,
      get a() {
        return reads++ === 0 ? 'x' : inner;
      },
      big: 1n,
    };
  },
  'flipping element': (inner) => {
    let reads = 0;
    const get = () => (reads++ === 0 ? 'x' : inner);
    return Object.defineProperty([1, 1n], 0, { enumerable: true, get });
  },
  'flipping proxy': (inner) => {
    let reads = 0;
    const target: object = { a: inner, b: 1 };
    return new Proxy(target, { ownKeys: () => (reads++ === 0 ? ['b'] : ['a', 'b']) });
  },
  proxy: (inner) => new Proxy({ a: inner }, {}),
  'proxy of an array': (inner) => new Proxy([inner], {}),
  'class instance': (inner) =>
    new (class Order {
      a = inner;
    })(),
  toJSON: (inner) => ({ toJSON: () => inner }),
  'flipping toJSON': (inner) => {
    let reads = 0;
    return {
      get toJSON() {
        return reads++ === 0 ? undefined : () => inner;
      },
    };
  },
  'function with toJSON': (inner) => Object.assign(() => 1, { toJSON: () => inner }),
  'array with toJSON': (inner) => Object.assign([1], { toJSON: () => inner }),
  'error with toJSON': (inner) => Object.assign(new Error(secret), { toJSON: () => inner }),
  error: (inner) => Object.assign(new Error(secret), { inner }),
  'date with toJSON': (inner) => Object.assign(new Date(0), { toJSON: () => inner }),
  'date with toISOString': (inner) => Object.assign(new Date(0), { toISOString: () => inner }),
  'map with toJSON': (inner) => Object.assign(new Map([['note', 1]]), { toJSON: () => inner }),
  'set with toJSON': (inner) => Object.assign(new Set([1]), { toJSON: () => inner }),
  'bytes with toJSON': (inner) => Object.assign(new Uint8Array(2), { toJSON: () => inner }),
  'text object with toJSON': (inner) => Object.assign(Object('x'), { toJSON: () => inner }),
  'text object with valueOf': (inner) => Object.assign(Object('x'), { valueOf: () => inner }),
  'heir of Map.prototype': (inner) => Object.assign(Object.create(Map.prototype), { a: inner }),
  'heir of String.prototype': (inner) => Object.assign(Object.create(String.prototype), { a: inner }),
  'key of a map': (inner) => new Map([[inner, 1]]),
  symbols: (inner) => ({ [Symbol(secret)]: inner, a: Symbol(secret), b: Object(Symbol(secret)) }),
};

describe('hostile payloads', () => {
  before(() => PiiField('EMAIL')(Person.prototype, 'email'));

  it('show nothing that is marked, whatever stands around it', () => {
    const inner = fc.constantFrom<() => unknown>(
      () => new Person(),
      () => ({ email: secret }),
      () => ({ email: Object(secret) }),
      () => ({ email: new Set([secret]) }),
      () => ({ email: { toJSON: () => [secret] } }),
    );
    const around = fc.array(fc.constantFrom(...Object.keys(wrappers)), { maxLength: 4 });
    fc.assert(
      fc.property(inner, around, (make, names) => {
        const payload = names.reduce<unknown>((value, name) => wrappers[name]?.(value), make());
        try {
          const text = JSON.stringify(publishes(payload, ['**.email=EMAIL']));
          assert.equal(text.includes('john'), false, text);
        } catch (error) {
          assert.ok(error instanceof SvcError, String(error));
          assert.doesNotMatch(error.message, /john/);
        }
      }),
      { numRuns: 3000 },
    );
  });

  for (const name of ['function with toJSON', 'array with toJSON', 'date with toJSON', 'map with toJSON'])
    it(`${name}: publish what it returns, protected`, () =>
      assert.deepEqual(publishes({ a: wrappers[name]?.(new Person()) }), { a: { email: shown } }));

  it('publish of classes over Date, Map, Set, bytes and String what their toJSON says', () => {
    const day = new (class extends Date {
      override toJSON() {
        return '1970-01-01';
      }
    })(0);
    const short = { toJSON: () => 'short' };
    const payload = {
      day,
      map: Object.assign(new Map([['a', 1]]), short),
      set: Object.assign(new Set([1]), short),
      bytes: Object.assign(new Uint8Array(1), short),
      text: Object.assign(Object('long'), short),
      shown: Object.assign(Object('raw'), { toString: () => 'hidden' }),
    };
    const says = { map: 'short', set: 'short', bytes: 'short', text: 'short', shown: 'hidden' };
    assert.deepEqual(publishes(payload), { day: '1970-01-01', ...says });
  });

  it('tell toJSON the key or the index, as JSON.stringify does', () => {
    const keyed = { toJSON: (key: string) => `key ${key}` };
    const payload = { a: keyed, list: [0, keyed, [keyed]], deep: { b: keyed } };
    for (const rules of [[], ['**.x']])
      assert.deepEqual(publishes(payload, rules), JSON.parse(JSON.stringify(payload)));
    assert.deepEqual(publishes(keyed), { value: 'key ' });
  });

  it('call toJSON of what toJSON returned no second time', () => {
    const endless = (): unknown => Object.assign([1], { toJSON: endless });
    assert.deepEqual(publishes({ a: endless() }), { a: [1] });
  });

  it('read a list that grows while it is read to its first length', () => {
    const list: unknown[] = [];
    const growing = { toJSON: () => list.push(growing) };
    list.push(growing);
    for (const rules of [[], ['**.x']]) assert.doesNotThrow(() => publishes({ list }, rules));
  });

  it('are refused where an iterator or a chain of copies has no end', () => {
    const forever = <T>(item: T) =>
      function* () {
        for (;;) yield item;
      };
    const set = Object.assign(new Set(), { [Symbol.iterator]: forever(1) });
    const map = Object.assign(new Map(), { [Symbol.iterator]: forever(['a', 1]) });
    for (const payload of [{ set }, { map }]) refuses(payload, 'SVC_PROTECT_TOO_LARGE');
    let doubled: object = { email: secret };
    for (let level = 0; level < 40; level++) doubled = { a: doubled, b: doubled };
    for (const rules of [[], ['**.email']]) refuses(doubled, 'SVC_PROTECT_TOO_LARGE', rules, { secret });
    const cyclic = new Map<string, unknown>();
    cyclic.set('a', cyclic).set('b', new Set([cyclic]));
    refuses(cyclic, 'SVC_PROTECT_DEPTH_OR_CYCLE');
  });

  it('do not change what others are taken for', () => {
    const odd = [String, Number, Boolean, Promise, RegExp, Set, ArrayBuffer, DataView, Uint16Array];
    for (const { prototype } of odd) publishes({ a: Object.create(prototype) });
    refuses({ a: Object.create(Date.prototype) }, 'SVC_PROTECT_READ_ERROR');
    publishes({ a: Object.assign(new Error(secret), { toJSON: () => 1 }) });
    publishes({ a: Object.assign(Promise.resolve(1), { toJSON: () => 1 }) });
    const payload = { a: Object('x'), b: Object(1), c: new Date(0), d: new Set([1]), e: new Uint16Array(1) };
    const date = '1970-01-01T00:00:00.000Z';
    assert.deepEqual(publishes(payload), { a: 'x', b: 1, c: date, d: [1], e: 'AAA=' });
    for (const a of [Promise.resolve(1), /x/, new Error(secret)])
      refuses({ a }, 'SVC_PROTECT_UNSUPPORTED_TYPE', [], { secret });
  });

  it('may hold JSON.rawJSON, which is a value as any other', () => {
    const { rawJSON } = JSON as unknown as { rawJSON(text: string): unknown };
    const payload = {
      id: rawJSON('12345678901234567890'),
      email: rawJSON(`"${secret}"`),
      n: rawJSON('null'),
    };
    assert.deepEqual(publishes(payload, ['email']), {
      id: Number('12345678901234567890'),
      email: shown,
      n: null,
    });
  });

  it('may hold texts without sense: half surrogates, and a megabyte', () => {
    const rules = (strategy: string) => [{ path: '**.email', type: 'EMAIL', strategy }];
    for (const email of ['\ud800john@x.com', 'john\udc00', '\ud83d', `john${'x'.repeat(1_000_000)}`]) {
      for (const strategy of ['MASK', 'HASH', 'ENCRYPT']) {
        const text = JSON.stringify(publishes([{ email }], rules(strategy)));
        // With what stands behind it: four letters alone are in a megabyte of Base64 now and then.
        assert.doesNotMatch(text, /john(@|\\udc00|x{8})/);
      }
    }
  });
});

describe('the values of marked fields, where toJSON decides', () => {
  const leaf = fc.stringMatching(/^canary[a-z0-9]{6}$/);
  const { tree } = fc.letrec((tie) => ({
    tree: fc.oneof(
      { maxDepth: 3 },
      leaf,
      fc.array(tie('tree'), { maxLength: 3 }),
      fc.dictionary(fc.constantFrom('a', 'b', '__proto__'), tie('tree')),
      tie('tree').map((value) => new Map([['k', value]])),
      tie('tree').map((value) => new Set([value])),
      leaf.map((text) => Object(text) as unknown),
    ),
  }));
  const leaves = (value: unknown): string[] => {
    if (typeof value === 'string') return [value];
    if (value instanceof String) return [value.toString()];
    if (value instanceof Map || value instanceof Set) return [...value.values()].flatMap(leaves);
    return Object.values(value as object).flatMap(leaves);
  };
  const ways: Readonly<Record<string, (value: unknown) => unknown>> = {
    'another name': (value) => ({ other: value }),
    itself: (value) => (typeof value === 'string' ? { value } : value),
    'a list': (value) => [[value]],
    'a map': (value) => new Map([['other', value]]),
    'a list of its parts': (value) => ({ parts: leaves(value) }),
    'a text': (value) => ({ text: `It is: ${leaves(value).join(', ')}.` }),
    'a copy': (value) => ({ copy: structuredClone(value) }),
    'an object below': (value) => ({ below: { toJSON: () => ({ other: value }) } }),
  };

  for (const [name, way] of Object.entries(ways)) {
    it(`are known under ${name}`, () => {
      class Hiding {
        value: unknown;
        constructor(value: unknown) {
          this.value = value;
        }
        toJSON(): unknown {
          return way(this.value);
        }
      }
      PiiField({ type: 'CUSTOM', level: 'STRONG' })(Hiding.prototype, 'value');
      fc.assert(
        fc.property(tree, (value) => {
          const text = JSON.stringify(publishes({ list: [new Hiding(value)] }));
          assert.equal(text.includes('canary'), false, text);
        }),
        { numRuns: 200 },
      );
    });
  }

  it('are known with their dates, left out with EXCLUDE, and read through getters that throw', () => {
    class Hiding {
      born = new Date(0);
      list = ['canary1', 'canary2'];
      get broken() {
        throw new Error(secret);
      }
      toJSON() {
        return { at: this.born, iso: this.born.toISOString(), gone: this.list, none: [this.list, 'x'] };
      }
    }
    PiiField({ type: 'CUSTOM', level: 'STRONG' })(Hiding.prototype, 'born');
    PiiField({ strategy: 'EXCLUDE' })(Hiding.prototype, 'list');
    PiiField()(Hiding.prototype, 'broken');
    assert.deepEqual(publishes(new Hiding()), { at: '****', iso: '****', none: ['x'] });
  });

  it('of classes over Array and Map, too', () => {
    class List extends Array<string> {
      owner = secret;
      toJSON() {
        return { where: this.owner };
      }
    }
    class Table extends Map<string, string> {
      owner = secret;
      toJSON() {
        return { where: this.owner };
      }
    }
    PiiField('EMAIL')(List.prototype, 'owner');
    PiiField('EMAIL')(Table.prototype, 'owner');
    assert.deepEqual(publishes({ a: new List(), b: new Table() }), {
      a: { where: shown },
      b: { where: shown },
    });
  });
});
