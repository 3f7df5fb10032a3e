import assert from 'node:assert/strict';
import { publishes, refuses } from './protecting.ts';

class Point {
  readonly x = 1;
  readonly #y = 2;
  get sum(): number {
    return this.x + this.#y;
  }
}
class Money {
  readonly cents = 1250;
  toJSON(): string {
    return '12.50';
  }
}
class OwnDate extends Date {
  override toISOString(): string {
    return 'own';
  }
}

const withToJson = (toJSON: (key: string) => unknown): object => ({ hidden: 1, toJSON });
const proxied = new Proxy({ a: 1 }, {});

/** JSON of these is what `JSON.stringify` makes of them. */
const same: Readonly<Record<string, unknown>> = {
  ...{ text: 'é漢😀\u2028"\\', 'half a pair': '\ud83d', empty: '', zero: 0, 'minus zero': -0, large: 1e21 },
  ...{ small: 5e-324, nan: Number.NaN, infinite: Infinity, true: true, null: null, undefined: undefined },
  ...{
    symbol: Symbol('s'),
    function: () => 1,
    'plain object': { a: { b: [1, 'x', null] } },
    list: [1, [2, [3]]],
  },
  ...{ holes: Object.assign(new Array(3), { 1: 'x' }), 'list of nothing': [undefined, () => 1, Symbol('s')] },
  ...{
    'undefined in it': { a: undefined, b: () => 1, c: Symbol('s') },
    'symbol as key': { [Symbol('s')]: 1, a: 1 },
  },
  ...{
    'without prototype': Object.assign(Object.create(null), { a: 1 }),
    instance: new Point(),
    money: new Money(),
  },
  ...{ frozen: Object.freeze({ a: 1 }), proxy: proxied, 'number as keys': { 10: 'b', 9: 'a', z: 'c' } },
  ...{ date: new Date(0), 'invalid date': new Date(Number.NaN), 'own date': new OwnDate(0) },
  ...{ 'boxed text': new String('x'), 'boxed number': new Number(1), 'boxed boolean': new Boolean(false) },
  ...{ url: new URL('https://example.com/a?b=c'), inherited: Object.create({ a: 1 }), arguments: { 0: 'a' } },
  'not enumerable': Object.defineProperty({ a: 1 }, 'b', { value: 2 }),
  getter: Object.defineProperty({}, 'a', { enumerable: true, get: () => 7 }),
  'toJSON with its key': { k: withToJson((key) => `key ${key}`), list: [withToJson((key) => `at ${key}`)] },
  'toJSON of nothing': { a: withToJson(() => undefined), list: [withToJson(() => undefined)] },
  'toJSON of a list': withToJson(() => [1, new Date(0)]),
  'toJSON of a function': Object.assign(() => 1, { toJSON: () => 'f' }),
  'toJSON of another with one': withToJson(() => withToJson(() => 'not asked')),
  'toJSON of itself': Object.assign(new Point(), {
    toJSON(this: object) {
      return this;
    },
  }),
  'map with toJSON': Object.assign(new Map([['a', 1]]), { toJSON: () => 'own' }),
  'error with toJSON': Object.assign(new Error('x'), { toJSON: () => ({ name: 'E' }) }),
  'buffer with toJSON': Object.assign(Buffer.from('x'), { toJSON: () => 'own' }),
  'raw JSON': (JSON as unknown as { rawJSON?: (text: string) => unknown }).rawJSON?.('1e400') ?? 1,
};

/** These are named in docs/api.md. */
const others: Readonly<Record<string, readonly [unknown, unknown]>> = {
  bigint: [12345678901234567890n, '12345678901234567890'],
  'boxed bigint': [Object(7n), '7'],
  map: [
    new Map<unknown, unknown>([
      ['a', 1],
      [2, { b: 3 }],
    ]),
    { a: 1, 2: { b: 3 } },
  ],
  set: [new Set([1, 'a']), [1, 'a']],
  buffer: [Buffer.from([0, 255]), 'AP8='],
  'typed array': [Uint16Array.of(255), '/wA='],
  'array buffer': [Uint8Array.of(0, 255).buffer, 'AP8='],
  'view of data': [new DataView(Uint8Array.of(0, 255).buffer), 'AP8='],
};

describe('a payload in JSON', () => {
  for (const [what, value] of Object.entries(same)) {
    it(`is what JSON.stringify makes of it: ${what}`, () => {
      const json = JSON.stringify({ value });
      if (what === 'raw JSON')
        assert.equal(JSON.stringify(publishes({ value })), JSON.stringify(JSON.parse(json)));
      else if (what !== 'toJSON of another with one')
        assert.deepEqual(publishes({ value }), JSON.parse(json));
      else assert.deepEqual(publishes({ value }), { value: { hidden: 1 } });
    });
  }

  for (const [what, [value, published]] of Object.entries(others)) {
    it(`has a form where JSON has none, or loses it: ${what}`, () => {
      assert.deepEqual(publishes({ value, list: [value] }), { value: published, list: [published] });
    });
  }

  for (const [what, value] of Object.entries({
    'an error': new Error('x'),
    'a promise': Promise.resolve(1),
    'an expression': /x/,
    'a weak map': new WeakMap(),
    'a map by objects': new Map([[{}, 1]]),
  })) {
    it(`does not hold ${what}`, () => refuses({ value }, 'SVC_PROTECT_UNSUPPORTED_TYPE'));
  }

  for (const [what, prototype, value, said] of [
    ['BigInt', BigInt.prototype, 7n, 'own 7'],
    ['Date', Date.prototype, new Date(0), 'own 0'],
    ['Map', Map.prototype, new Map(), 'own [object Map]'],
    ['Buffer', Buffer.prototype, Buffer.from('x'), 'own x'],
  ] as const) {
    it(`is what an application's toJSON of ${what} says`, () => {
      const before = Object.getOwnPropertyDescriptor(prototype, 'toJSON');
      const toJSON = function (this: unknown): string {
        return `own ${this instanceof Date ? this.getTime() : String(this)}`;
      };
      Object.defineProperty(prototype, 'toJSON', { value: toJSON, configurable: true, writable: true });
      try {
        assert.deepEqual(
          publishes({ value, list: [value] }),
          JSON.parse(JSON.stringify({ value, list: [value] })),
        );
        assert.deepEqual(publishes({ value }), { value: said });
        assert.deepEqual(publishes({ value }, ['value=CUSTOM:EXCLUDE']), {});
      } finally {
        if (before === undefined) Reflect.deleteProperty(prototype, 'toJSON');
        else Object.defineProperty(prototype, 'toJSON', before);
      }
    });
  }
});
