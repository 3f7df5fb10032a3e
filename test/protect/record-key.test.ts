import assert from 'node:assert/strict';
import fc from 'fast-check';
import { PiiField } from '../../src/protect/marks/policy.ts';
import { publishes, refuses } from './protecting.ts';

const shortestShown = { text: 5, number: 8, anywhere: 10 };

const secret = 'john.doe@gmail.com';
const exclude = (path: string) => [{ path, strategy: 'EXCLUDE' }];
const code = 'SVC_PROTECT_KEY_IN_CLEAR';

describe('a text that leaves in clear beside the payload', () => {
  const places: Readonly<Record<string, readonly [payload: unknown, rules: unknown]>> = {
    'a masked field': [{ email: secret }, ['email']],
    'a field that is left out': [{ email: secret }, exclude('email')],
    'an object that is left out': [{ customer: { contact: { email: secret } } }, exclude('customer')],
    'an array that is left out': [{ emails: ['x', secret] }, exclude('emails')],
    'the elements of an array': [{ emails: [{ email: secret }] }, exclude('emails[*]')],
    'a payload that is left out': [{ email: secret }, exclude('**')],
    'a value that is left out': [secret, exclude('value')],
    'a map that is left out': [{ a: new Map([['x', new Set([secret])]]) }, exclude('a')],
    'a text object': [{ a: [Object(secret)] }, exclude('a')],
    'a getter': [
      {
        a: {
          get b() {
            return secret;
          },
        },
      },
      exclude('a'),
    ],
    'what toJSON returns': [{ a: { toJSON: () => ({ b: secret }) } }, exclude('a')],
    'a masked object': [{ a: { b: [secret] } }, ['a=CUSTOM']],
  };
  const keys: Readonly<Record<string, string>> = {
    equal: secret,
    'equal but for upper and lower case': 'John.Doe@GMAIL.com',
    'equal but for the form of its characters': 'ｊohn.doe＠gmail.com',
    'equal but for space around it': ` ${secret}\n`,
    'with more before and after': `user:${secret}:17`,
    'with more that is no delimiter': `x${secret}x`,
    'as part of a URL': `user/${encodeURIComponent(secret)}`,
    'in Base64': Buffer.from(`user:${secret}`).toString('base64url'),
    'in hexadecimal': Buffer.from(secret).toString('hex'),
    'as JSON': JSON.stringify(JSON.stringify([secret])),
    'with other separators': 'john-doe-gmail-com',
  };
  for (const [place, [payload, rules]] of Object.entries(places)) {
    for (const [how, key] of Object.entries(keys)) {
      it(`is refused where it shows ${place}: ${how}`, () => {
        refuses(payload, code, rules, { key, secret });
        refuses(payload, code, rules, { key: ['o-17', key], secret });
      });
    }
    it(`goes out beside ${place} where it shows nothing of it`, () => {
      assert.doesNotThrow(() => publishes(payload, rules, { key: ['o-17', 'john', 'gmail.com'] }));
    });
  }

  it('may be or hold a shorter value, which is there by chance', () => {
    const { text, number, anywhere } = shortestShown;
    assert.deepEqual([text, number, anywhere], [5, 8, 10]);
    const payload = (a: unknown) => ({ a, request: { a } });
    for (const rules of [['a=CUSTOM'], exclude('a'), exclude('request')]) {
      const beside = (value: unknown, key: string) => () => publishes(payload(value), rules, { key });
      for (const [last, first] of [
        ['kkkk', 'kkkkk'],
        ['7777777', '77777777'],
        [7_777_777, 77_777_777],
        [7_777_777n, 77_777_777n],
        [777.777, 7777.777],
        [-777_777, -7_777_777],
      ]) {
        for (const spell of [(value: string) => value, (value: string) => `user:${value}`]) {
          assert.doesNotThrow(beside(last, spell(String(last))), String(last));
          assert.throws(beside(first, spell(String(first)).toUpperCase()), { code }, String(first));
        }
        assert.doesNotThrow(beside(first, `x${first}x`));
      }
      assert.throws(beside('7'.repeat(anywhere), `1${'7'.repeat(anywhere)}1`), { code });
      assert.doesNotThrow(beside('7'.repeat(anywhere - 1), `1${'7'.repeat(anywhere - 1)}1`));
      for (const value of [3, '', true, false, 'k']) assert.doesNotThrow(beside(value, String(value)));
    }
  });

  it('is compared with the texts of numbers and dates', () => {
    const born = new Date('1990-01-15');
    const seen = new Date('1990-01-15T10:00:00Z');
    const rules = ['a=CUSTOM'];
    refuses({ a: 4930901820 }, code, rules, { key: 'tel-4930901820' });
    refuses({ a: 4930901820n }, code, rules, { key: '4930901820' });
    for (const key of ['1990-01-15', 'born-1990-01-15', String(born.getTime()), born.toISOString()])
      for (const either of [rules, exclude('a')]) refuses({ a: [born] }, code, either, { key });
    for (const key of [String(seen.getTime()), seen.toISOString()])
      refuses({ a: seen }, code, rules, { key });
    // Keys by the day of an event are usual.
    assert.doesNotThrow(() => publishes({ a: seen }, rules, { key: '1990-01-15-17' }));
  });

  it('is compared with what a class marks and its toJSON leaves away', () => {
    class Customer {
      email = secret;
      toJSON() {
        return { id: 17 };
      }
    }
    PiiField('EMAIL')(Customer.prototype, 'email');
    refuses({ a: new Customer() }, code, [], { key: secret, secret });
    assert.deepEqual(publishes({ a: new Customer() }, [], { key: '17' }), { a: { id: 17 } });
  });

  it('is compared with objects that refer to themselves or cannot be read, and not with larger ones than any payload', () => {
    const request: Record<string, unknown> = { email: secret };
    request.self = { request };
    Object.defineProperty(request, 'broken', {
      enumerable: true,
      get() {
        throw new Error(secret);
      },
    });
    assert.doesNotThrow(() => publishes({ request }, exclude('request')));
    assert.doesNotThrow(() =>
      publishes({ request: { inner: request } }, exclude('request'), { key: 'o-17' }),
    );
    const cyclic: Record<string, unknown> = { email: secret };
    cyclic.self = [cyclic];
    refuses({ cyclic }, code, exclude('cyclic'), { key: secret, secret });
    const large = new Array(100_000).fill('x');
    refuses({ large }, 'SVC_PROTECT_TOO_LARGE', exclude('large'), { key: 'o-17' });
    assert.deepEqual(publishes({ large }, exclude('large')), {});
  });

  it('shows none of the values of any payload', () => {
    const value = fc.oneof(
      fc
        .string({ minLength: shortestShown.anywhere, maxLength: 40 })
        .filter((text) => text.trim().length >= 10),
      fc.integer({ min: 1e9 + 1 }),
    );
    const strategies = ['MASK', 'HASH', 'ENCRYPT', 'EXCLUDE'];
    fc.assert(
      fc.property(
        value,
        fc.constantFrom(...strategies),
        fc.string(),
        fc.string(),
        (text, strategy, before, after) => {
          const rules = [{ path: 'a', type: 'CUSTOM', strategy }];
          for (const a of [text, { b: [text] }]) {
            refuses({ a }, code, rules, { key: `${before}:${String(text).trim()}:${after}` });
          }
        },
      ),
      { numRuns: 300 },
    );
  });
});
