import assert from 'node:assert/strict';
import fc from 'fast-check';
import { SvcError } from '../../src/ground/errors.ts';
import type { FieldRule } from '../../src/ground/pii-rule.ts';
import { compilePolicy, createPolicies, type Policy } from '../../src/protect/marks/policy.ts';
import { publishes, refuses } from './protecting.ts';

const secret = 'john.doe@gmail.com';
const shown = 'jo******@gm***.com';

/** The rule for the value at a path of keys, if one says so; the rule of an object goes for all below it. */
function ruleAt(policy: Policy, keys: readonly string[]): FieldRule | undefined {
  let state = policy.root;
  let rule = state.rule;
  for (const key of keys) {
    state = /^\d+$/.test(key) ? state.element() : state.next(key);
    rule = state.rule ?? rule;
  }
  return rule;
}

describe('path rules', () => {
  it('mean one path, and nothing beside it', () => {
    const payload = { email: secret, customer: { email: secret, name: 'x' } };
    assert.deepEqual(publishes(payload, ['customer.email']), {
      email: secret,
      customer: { email: shown, name: 'x' },
    });
    assert.deepEqual(publishes(payload, ['email']), { email: shown, customer: payload.customer });
  });

  for (const path of ['items[*].email', 'items.email', 'items.*.email', '**.email', 'items.**', 'items']) {
    it(`${path} goes through arrays, maps, sets and toJSON`, () => {
      const rules = path.endsWith('email') ? [path] : [{ path, type: 'EMAIL' }];
      const item = { email: secret };
      for (const items of [
        [item],
        [[item]],
        new Set([item]),
        new Map([['a', item]]),
        { a: item },
        [{ toJSON: () => item }],
        { toJSON: () => [item] },
      ]) {
        if (path === 'items.email' && (items instanceof Map || Object.keys(items)[0] === 'a')) continue;
        const text = JSON.stringify(publishes({ items }, rules));
        assert.equal(text.includes(secret), false, text);
        assert.equal(text.includes(shown), true, text);
      }
    });
  }

  it('** finds a key at any depth, the root among them', () => {
    const payload = { ssn: '123-45-6789', a: [{ b: { ssn: '123-45-6789' } }] };
    assert.deepEqual(publishes(payload, ['**.ssn']), { ssn: '****', a: [{ b: { ssn: '****' } }] });
    assert.deepEqual(publishes({ a: { x: { b: 'x' }, b: 'x' }, b: 'x' }, ['a.**.b']), {
      a: { x: { b: '****' }, b: '****' },
      b: 'x',
    });
  });

  it('* stands for one step', () => {
    assert.deepEqual(publishes({ a: { b: 'x', c: { b: 'x' } }, b: 'x' }, ['*.b']), {
      a: { b: '****', c: { b: 'x' } },
      b: 'x',
    });
  });

  it('name keys with dots and brackets in quotes', () => {
    const payload = { 'a.b': 'x', a: { b: 'x' }, 'c[0]': 'x' };
    assert.deepEqual(publishes(payload, ['["a.b"]', "['c[0]']"]), {
      'a.b': '****',
      a: { b: 'x' },
      'c[0]': '****',
    });
  });

  it('protect what is no string as its text, and objects to their leaves', () => {
    const payload = {
      values: [42, 42n, true, Number.NaN, null, undefined, new Date(0), Buffer.from('hi'), Object('x')],
      object: { a: 'x', b: [{ c: 'y' }], d: new Map([['e', 'z']]), f: () => 1 },
    };
    const date = '1970-01-01T00:00:00.000Z';
    const rules = [
      { path: 'values', strategy: 'HASH' },
      { path: 'object', level: 'STRONG' },
    ];
    const hash = (text: string) => (publishes(text, { strategy: 'HASH' }) as { value: string }).value;
    assert.deepEqual(publishes(payload, rules), {
      values: [hash('42'), hash('42'), hash('true'), null, null, null, hash(date), hash('aGk='), hash('x')],
      object: { a: '****', b: [{ c: '****' }], d: { e: '****' } },
    });
  });

  it('EXCLUDE removes keys, elements, and what is below', () => {
    const payload = { a: 1, b: { c: 1 }, list: [{ d: 1, e: 2 }], gone: ['x'] };
    const exclude = (path: string) => ({ path, strategy: 'EXCLUDE' });
    assert.deepEqual(publishes(payload, [exclude('b.c'), exclude('list.d'), exclude('gone[*]')]), {
      a: 1,
      b: {},
      list: [{ e: 2 }],
      gone: [],
    });
    assert.deepEqual(publishes(payload, [exclude('b'), exclude('list'), exclude('gone')]), { a: 1 });
    assert.deepEqual(publishes('x', { strategy: 'EXCLUDE' }), { value: null });
  });

  it('the first rule that matches counts; one for a part goes before one for the whole', () => {
    const rules = [
      { path: 'a.b', strategy: 'EXCLUDE' },
      { path: 'a', type: 'CUSTOM', level: 'STRONG' },
      { path: '**.b', strategy: 'HASH' },
    ];
    assert.deepEqual(publishes({ a: { b: 'x', c: 'y' } }, rules), { a: { c: '****' } });
  });

  for (const [what, payload] of [
    ['a string', secret],
    ['a list', [secret]],
    ['a set', new Set([secret])],
    ['toJSON to a string', { toJSON: () => secret }],
  ] as const) {
    it(`mean a payload that is ${what}`, () => {
      for (const rules of ['EMAIL', { type: 'EMAIL' }, [{ path: 'value', type: 'EMAIL' }], ['**=EMAIL']]) {
        const text = JSON.stringify(publishes(payload, rules));
        assert.equal(text.includes(shown) && !text.includes(secret), true, text);
      }
    });
  }

  it('for "value" mean that key of an object, and not the whole', () => {
    assert.deepEqual(publishes({ value: 'x', other: 'x' }, ['value']), { value: '****', other: 'x' });
  });

  it('mean own keys named __proto__', () => {
    const payload = JSON.parse('{"a":{"__proto__":{"email":"x"}},"__proto__":{"email":"x"}}');
    const text = JSON.stringify(publishes(payload, ['**.email=CUSTOM']));
    assert.equal(text.split('****').length, 3);
  });

  it('never change what the application holds', () => {
    const payload = { a: { email: secret }, list: [secret] };
    const before = JSON.stringify(payload);
    publishes(payload, ['**.email', 'list']);
    assert.equal(JSON.stringify(payload), before);
  });

  it('read each value once', () => {
    let reads = 0;
    const payload = {
      first: 'x',
      get email() {
        reads++;
        return reads === 1 ? null : secret;
      },
      last: 'x',
    };
    assert.deepEqual(publishes(payload, ['email']), { first: 'x', email: null, last: 'x' });
    assert.equal(reads, 1);
  });

  it('publish no field that a getter adds while the payload is read', () => {
    const payload: Record<string, unknown> = {
      get a() {
        payload.email = secret;
        return 1;
      },
    };
    assert.equal(JSON.stringify(publishes({ payload }, ['**.email'])).includes(secret), false);
  });

  it('hold in objects of 1000 rules', () => {
    const rules = Array.from({ length: 1000 }, (_, index) => `k${index}.email`);
    const payload = Object.fromEntries(rules.map((_, index) => [`k${index}`, { email: secret }]));
    assert.equal(JSON.stringify(publishes(payload, rules)).includes(secret), false);
  });

  it('protect exactly what they name, in any payload', () => {
    const key = fc.constantFrom('a', 'b', 'email', '__proto__', 'toString');
    const { tree } = fc.letrec((tie) => ({
      tree: fc.oneof(
        { maxDepth: 3 },
        fc.string(),
        fc.array(tie('tree'), { maxLength: 3 }),
        fc.dictionary(key, tie('tree')),
      ),
    }));
    const step = fc.constantFrom('a', 'b', 'email', '*', '**', '[*]');
    const path = fc.array(step, { minLength: 1, maxLength: 4 }).map((steps) => steps.join('.'));
    fc.assert(
      fc.property(
        fc.dictionary(key, tree),
        fc.array(path, { minLength: 1, maxLength: 3 }),
        (payload, paths) => {
          const policy = compilePolicy(
            paths.map((one) => ({ path: one, type: 'CUSTOM', strategy: 'MASK', level: 'STRONG' })),
          );
          const result = publishes(
            payload,
            paths.map((one) => ({ path: one, type: 'CUSTOM', level: 'STRONG' })),
          );
          const compare = (before: unknown, after: unknown, keys: readonly string[]): void => {
            if (typeof before === 'string') {
              const expected =
                ruleAt(policy, keys) === undefined ? before : before === '****' ? '***' : '****';
              assert.equal(after, expected);
              return;
            }
            for (const [name, value] of Object.entries(before as object))
              compare(value, (after as Record<string, unknown>)[name], [
                ...keys,
                Array.isArray(before) ? '0' : name,
              ]);
          };
          compare(payload, result, []);
        },
      ),
      { numRuns: 1000 },
    );
  });
});

describe('the protector', () => {
  it('fails closed when a value cannot be sealed', () => {
    const fail = (): never => {
      throw new TypeError(secret);
    };
    const refusing = (): never => {
      throw new SvcError('SVC_PROTECT_KEY_UNAVAILABLE', 'no key');
    };
    const payload = { email: secret };
    for (const [strategy, sealer, code] of [
      ['ENCRYPT', { encrypt: fail, hash: fail }, 'SVC_PROTECT_NOT_PROTECTED'],
      ['HASH', { encrypt: fail, hash: fail }, 'SVC_PROTECT_NOT_PROTECTED'],
      ['ENCRYPT', { encrypt: (text: string) => text, hash: fail }, 'SVC_PROTECT_NOT_PROTECTED'],
      ['HASH', { encrypt: fail, hash: () => undefined as unknown as string }, 'SVC_PROTECT_NOT_PROTECTED'],
      ['ENCRYPT', { encrypt: refusing, hash: fail }, 'SVC_PROTECT_KEY_UNAVAILABLE'],
    ] as const) {
      refuses(payload, code, [{ path: 'email', strategy }], { sealer, secret });
    }
  });

  it('fails closed for a strategy that it does not know', () => {
    const rule = { type: 'EMAIL', strategy: 'NONE' as 'MASK', level: 'NORMAL' } as const;
    const policy = compilePolicy([{ path: 'email', ...rule }]);
    refuses({ email: secret }, 'SVC_PROTECT_NOT_PROTECTED', [], { policyOf: () => policy, secret });
  });

  it('shows no error of the application, not even one that it made an SvcError', () => {
    for (const error of [new Error(secret), new SvcError('SVC_PROTECT_RULE', secret), secret]) {
      const payload = {
        get email() {
          throw error;
        },
      };
      for (const rules of [[], ['email'], ['**.x']])
        refuses(payload, 'SVC_PROTECT_READ_ERROR', rules, { secret });
    }
  });

  it('ends hostile payloads in a coded error', () => {
    const rules = ['**.email'];
    const cycle: Record<string, unknown> = { email: secret };
    cycle.self = cycle;
    refuses(cycle, 'SVC_PROTECT_DEPTH_OR_CYCLE', rules, { secret });
    refuses({ email: new Array(100_001).fill(secret) }, 'SVC_PROTECT_TOO_LARGE', rules, { secret });
    refuses({ email: new Error(secret) }, 'SVC_PROTECT_UNSUPPORTED_TYPE', rules, { secret });
    for (const trap of ['ownKeys', 'get', 'getPrototypeOf', 'getOwnPropertyDescriptor'] as const) {
      const proxy = new Proxy(
        { email: secret },
        {
          [trap]() {
            throw new Error(secret);
          },
        },
      );
      refuses({ proxy }, 'SVC_PROTECT_READ_ERROR', rules, { secret });
      refuses(proxy, 'SVC_PROTECT_READ_ERROR', rules, { secret });
    }
    const endless: { toJSON: () => unknown } = { toJSON: () => [endless] };
    refuses(endless, 'SVC_PROTECT_DEPTH_OR_CYCLE', rules);
  });

  it('honours toJSON of arrays', () => {
    const list = Object.assign([1], { toJSON: () => [{ email: secret }] });
    assert.deepEqual(publishes({ list }, ['**.email']), { list: [{ email: shown }] });
    assert.deepEqual(publishes({ list }), { list: [{ email: secret }] });
  });

  it('lets no protected value go out as record key', () => {
    refuses({ email: secret, id: 7 }, 'SVC_PROTECT_KEY_IN_CLEAR', ['email'], { key: secret, secret });
    const exclude = [{ path: 'email', strategy: 'EXCLUDE' }];
    refuses({ email: secret, id: 7 }, 'SVC_PROTECT_KEY_IN_CLEAR', exclude, { key: secret, secret });
    refuses({ id: 70_707_070 }, 'SVC_PROTECT_KEY_IN_CLEAR', ['id'], { key: '70707070' });
    assert.deepEqual(publishes({ email: secret, id: 7 }, ['email'], { key: '7' }), { email: shown, id: 7 });
  });

  it('lets no protected value go out as a header', () => {
    const headers = { tenant: 'acme', contact: secret };
    for (const strategy of ['MASK', 'ENCRYPT', 'HASH', 'EXCLUDE'])
      refuses({ email: secret }, 'SVC_PROTECT_HEADER_IN_CLEAR', [{ path: 'email', strategy }], {
        headers,
        secret,
      });
    refuses({ id: 70_707_070 }, 'SVC_PROTECT_HEADER_IN_CLEAR', ['id'], { headers: { id: '70707070' } });
    assert.deepEqual(publishes({ email: secret }, ['email'], { headers: { tenant: 'acme' } }), {
      email: shown,
    });
  });

  it('keeps the rules of event types apart, before those for all', () => {
    const policies = createPolicies({
      general: [{ path: 'a', type: 'CUSTOM', strategy: 'MASK', level: 'STRONG' }],
    });
    policies.add('X', [{ path: 'a', type: 'CUSTOM', strategy: 'HASH', level: 'STRONG' }], 't');
    policies.add('X', [{ path: 'b', type: 'CUSTOM', strategy: 'HASH', level: 'STRONG' }], 't');
    const strategies = ['X', 'Y'].map((eventType) =>
      ['a', 'b'].map((key) => ruleAt(policies.policyOf(eventType), [key])?.strategy),
    );
    assert.deepEqual(strategies, [
      ['HASH', 'HASH'],
      ['MASK', undefined],
    ]);
  });
});
