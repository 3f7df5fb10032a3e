import assert from 'node:assert/strict';
import { runInNewContext } from 'node:vm';
import type { Envelope } from '../../src/envelope/envelope.ts';
import { SvcError } from '../../src/ground/errors.ts';
import { compilePolicy, PiiField } from '../../src/protect/marks/policy.ts';
import { createProtector } from '../../src/protect/protect.ts';
import { forgetMarks } from './forget-marks.ts';
import { publishes, testSealer } from './protecting.ts';

const maxNodes = 100_000;
const maxDepth = 64;

const policy = compilePolicy([]);

/** The copy of a payload that serializers get. */
function normalize(payload: unknown, usesMarks = true): unknown {
  const protect = createProtector({ policyOf: () => policy, sealer: testSealer, usesMarks });
  return protect({ template: { eventType: 'E' }, payload } as Envelope).payload;
}

const json = (value: unknown) => JSON.stringify(normalize(value));
const refused = (value: unknown, code: string) =>
  assert.throws(
    () => normalize(value),
    (error) => error instanceof SvcError && error.code === code && !('cause' in error),
  );

function nested(levels: number): object {
  let value: object = {};
  for (let level = 0; level < levels; level++) value = { inner: value };
  return value;
}

describe('the walk without rules', () => {
  // Without a class that has marks, the walk looks for none.
  before(() => PiiField('CUSTOM')(class Marked {}.prototype, 'unused'));
  after(forgetMarks);

  for (const usesMarks of [false, true]) {
    it(`reads everything once, where classes have marks: ${usesMarks}`, () => {
      const reads: string[] = [];
      const counted = (name: string, target: object) =>
        Object.defineProperty(target, name, {
          enumerable: true,
          get: () => {
            reads.push(name);
            return reads.length;
          },
        });
      class Order {
        constructor() {
          counted('ofInstance', this);
        }
      }
      const proxy = new Proxy({ inProxy: 1 } as Record<string, unknown>, {
        get: (target, key) => {
          if (Object.hasOwn(target, key)) reads.push(String(key));
          return Reflect.get(target, key);
        },
      });
      const payload = {
        list: [counted('inList', {}), counted('0', []), proxy],
        order: new Order(),
        map: new Map([['entry', counted('inMap', {})]]),
        bare: counted('withoutPrototype', Object.create(null) as object),
        ...{ json: { toJSON: () => counted('ofToJson', {}) } },
      };
      const sent = JSON.stringify(normalize(counted('atRoot', payload), usesMarks));
      assert.deepEqual(reads, [...new Set(reads)]);
      assert.deepEqual(
        reads.toSorted(),
        [
          '0',
          'atRoot',
          'inList',
          'inMap',
          'inProxy',
          'ofInstance',
          'ofToJson',
          'withoutPrototype',
        ].toSorted(),
      );
      assert.match(sent, /"atRoot":1/);
    });
  }

  it('never changes the payload that the application holds', () => {
    const payload = { keep: 'x', at: new Date(0), list: [1n] };
    normalize(payload);
    assert.ok(payload.at instanceof Date);
    assert.equal(payload.list[0], 1n);
  });

  for (const [what, value, expected] of [
    ['Date', { at: new Date(0) }, '{"at":"1970-01-01T00:00:00.000Z"}'],
    ['invalid Date', { at: new Date(Number.NaN) }, '{"at":null}'],
    ['BigInt', { id: 9007199254740993n }, '{"id":"9007199254740993"}'],
    [
      'Map',
      new Map<unknown, unknown>([
        ['a', 1],
        [2, new Map([['b', 3n]])],
      ]),
      '{"2":{"b":"3"},"a":1}',
    ],
    ['Set', { tags: new Set(['a', 'b']) }, '{"tags":["a","b"]}'],
    ['Buffer', { bytes: Buffer.from('hi') }, '{"bytes":"aGk="}'],
    [
      'a view into a larger buffer',
      { bytes: new Uint8Array([0, 104, 105, 0]).subarray(1, 3) },
      '{"bytes":"aGk="}',
    ],
    ['ArrayBuffer', { bytes: new Uint8Array([104, 105]).buffer }, '{"bytes":"aGk="}'],
    ['toJSON', { money: { toJSON: () => ({ amount: 5n }) } }, '{"money":{"amount":"5"}}'],
    ['toJSON to text', { money: { toJSON: () => '5 EUR' } }, '{"money":"5 EUR"}'],
    [
      'toJSON whose result has a toJSON, which is not called',
      { a: { toJSON: () => ({ b: 1, toJSON: () => 'again' }) } },
      '{"a":{"b":1}}',
    ],
    ['primitive wrappers', { a: Object('x'), b: Object(1), c: Object(2n) }, '{"a":"x","b":1,"c":"2"}'],
    [
      'functions, symbols and undefined, as JSON does',
      { a: () => 1, b: Symbol('x'), c: undefined, d: [undefined] },
      '{"d":[null]}',
    ],
    ['null prototype', Object.assign(Object.create(null), { a: 1n }), '{"a":"1"}'],
    ['own key __proto__', JSON.parse('{"__proto__":{"x":1},"n":1}'), '{"__proto__":{"x":1},"n":1}'],
    [
      'values of another realm',
      { at: runInNewContext('new Date(0)'), m: runInNewContext('new Map([["a",1]])') },
      '{"at":"1970-01-01T00:00:00.000Z","m":{"a":1}}',
    ],
  ] as const) {
    it(`carries ${what}`, () => assert.equal(json(value), expected));
  }

  it('keeps an own key __proto__ when it has to copy', () => {
    const copied = normalize(JSON.parse('{"__proto__":{"x":1}}', (_, value) => (value === 1 ? 1n : value)));
    assert.equal(JSON.stringify(copied), '{"__proto__":{"x":"1"}}');
    assert.equal(Object.getPrototypeOf(copied), Object.prototype);
  });

  it('class instances: own fields and toJSON', () => {
    class Order {
      id = 7;
      #secret = 1;
      total = 5n;
      toDto() {
        return this.#secret;
      }
    }
    assert.equal(json(new Order()), '{"id":7,"total":"5"}');
  });

  for (const [what, value] of [
    ['Error', { error: new Error('john@example.com') }],
    ['Promise', { later: Promise.resolve(1) }],
    ['RegExp', { pattern: /x/ }],
    ['WeakMap', { weak: new WeakMap() }],
    ['Map with object keys', new Map([[{}, 1]])],
  ] as const) {
    it(`refuses ${what}`, () => refused(value, 'SVC_PROTECT_UNSUPPORTED_TYPE'));
  }

  it('an object that only inherits from Map.prototype does not change what maps are', () => {
    normalize(Object.create(Map.prototype));
    assert.equal(json(new Map([['a', 1]])), '{"a":1}');
  });

  it('a getter, toJSON or proxy that throws is refused, and its message is not passed on', () => {
    const secret = 'john@example.com';
    const fail = (): never => {
      throw new Error(secret);
    };
    for (const value of [
      {
        get email() {
          return fail();
        },
      },
      { a: { toJSON: fail } },
      new Proxy({}, { ownKeys: fail }),
    ]) {
      assert.throws(
        () => normalize(value),
        (error: Error) => !error.message.includes(secret) && !error.stack?.includes(secret),
      );
      refused(value, 'SVC_PROTECT_READ_ERROR');
    }
  });

  it('takes the fields of an object whose toJSON returns it', () => {
    class Order {
      readonly id = 7;
      toJSON(): this {
        return this;
      }
    }
    assert.deepEqual(normalize({ a: new Order(), list: [new Order()] }), { a: { id: 7 }, list: [{ id: 7 }] });
  });

  it(`takes ${maxDepth} levels, refuses ${maxDepth + 1} and cycles`, () => {
    assert.doesNotThrow(() => normalize(nested(maxDepth)));
    refused(nested(maxDepth + 1), 'SVC_PROTECT_DEPTH_OR_CYCLE');
    const cycle: Record<string, unknown> = {};
    cycle.self = cycle;
    refused(cycle, 'SVC_PROTECT_DEPTH_OR_CYCLE');
  });

  it(`takes ${maxNodes} values, refuses one more`, () => {
    assert.doesNotThrow(() => normalize(new Array(maxNodes).fill(1)));
    refused(new Array(maxNodes + 1).fill(1), 'SVC_PROTECT_TOO_LARGE');
  });

  it('what others put on the prototype of all objects is no part of a payload', () => {
    const payload = { a: 1n, b: { c: [1], d: 5n }, e: Object.create(null) };
    Object.defineProperty(Object.prototype, 'polluted', {
      value: { big: 7n },
      enumerable: true,
      configurable: true,
    });
    try {
      for (const rules of [[], ['b.d=:MASK:STRONG']]) {
        const d = rules.length === 0 ? '5' : '****';
        assert.equal(JSON.stringify(publishes(payload, rules)), `{"a":"1","b":{"c":[1],"d":"${d}"},"e":{}}`);
      }
    } finally {
      delete (Object.prototype as { polluted?: unknown }).polluted;
    }
  });

  it('a field that a getter adds while the payload is read is protected or left out', () => {
    const rules = ['**.email=EMAIL:MASK:STRONG'];
    const adding = () => {
      const object: Record<string, unknown> = {
        get first() {
          object.late = { email: 'jonathan@example.com' };
          return { big: 1n };
        },
        last: 1,
      };
      return object;
    };
    for (const payload of [adding(), { deep: [adding()] }]) {
      const text = JSON.stringify(publishes(payload, rules));
      assert.equal(text.includes('jonathan'), false, text);
      assert.match(text, /"big":"1".*"last":1/);
    }
  });
});
