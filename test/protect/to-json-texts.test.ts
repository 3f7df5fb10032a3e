import assert from 'node:assert/strict';
import fc from 'fast-check';
import { PiiField, type PiiFieldOptions } from '../../src/protect/marks/policy.ts';
import { publishes, refuses } from './protecting.ts';

type Fields = Readonly<Record<string, readonly [value: unknown, mark: PiiFieldOptions]>>;

/** An object with marked fields, whose `toJSON` is given. */
function marked(fields: Fields, toJSON: (object: Record<string, unknown>) => unknown): object {
  class Marked {
    toJSON(): unknown {
      return toJSON(this as never);
    }
  }
  for (const [name, [, mark]] of Object.entries(fields)) PiiField(mark)(Marked.prototype, name);
  return Object.assign(
    new Marked(),
    Object.fromEntries(Object.entries(fields).map(([name, [value]]) => [name, value])),
  );
}

const custom = (level: 'WEAK' | 'NORMAL' | 'STRONG' = 'WEAK') => ({ type: 'CUSTOM', level }) as const;

describe('a text that toJSON makes of marked values', () => {
  const cases: Readonly<Record<string, readonly [Fields, (o: Record<string, unknown>) => string, string?]>> =
    {
      'the value with more behind it': [
        { code: ['ABCDEFGHIJ', custom()] },
        (o) => `${o.code}, and then some more`,
      ],
      'an address and what lies around it': [
        { street: ['Hauptstr Berlin', { type: 'ADDRESS', level: 'WEAK' }] },
        (o) => `to, ${o.street}`,
      ],
      'a short first and last name': [
        { first: ['Kim', { type: 'NAME' }], last: ['Lee', { type: 'NAME' }] },
        (o) => `${o.first} ${o.last}`,
      ],
      'a name in other letters': [
        { name: ['Doe', { type: 'NAME' }] },
        (o) => `MR. ${String(o.name).toUpperCase()}`,
      ],
      'a number of four digits': [{ year: [1987, custom()] }, (o) => `born ${o.year}`],
      'its own field with more': [{ text: ['Hauptstr 5', custom()] }, (o) => `${o.text} in all languages`],
    };
  for (const [what, [fields, make]] of Object.entries(cases)) {
    it(`is masked whole: ${what}`, () => {
      const text = { text: '****' };
      assert.deepEqual(publishes(marked(fields, (o) => ({ text: make(o) }))), text);
      assert.deepEqual(publishes({ a: marked(fields, (o) => ({ b: [{ text: make(o) }] })) }), {
        a: { b: [text] },
      });
      assert.deepEqual(publishes(marked(fields, make)), { value: '****' });
    });
  }

  it('is left out where one of the values is', () => {
    const fields: Fields = {
      note: ['SECRETID12345', custom()],
      secret: ['SECRETID', { strategy: 'EXCLUDE' }],
      other: ['other value', { strategy: 'ENCRYPT' }],
    };
    const holding = (text: (o: Record<string, unknown>) => string) =>
      publishes({ a: marked(fields, (o) => ({ text: text(o), id: 1 })) });
    assert.deepEqual(
      holding((o) => `${o.note} and ${o.secret}`),
      { a: { id: 1 } },
    );
    assert.deepEqual(
      holding((o) => `${o.other} and ${o.secret}`),
      { a: { id: 1 } },
    );
    // The value of one field alone is protected by the rule of that field, whatever it holds.
    assert.deepEqual(
      holding((o) => String(o.note)),
      { a: { text: 'SECR****', id: 1 } },
    );
    // Under the name of another field as well.
    const swapped = marked(fields, (o) => ({ note: `for ${o.secret}`, id: 1 }));
    assert.deepEqual(publishes({ a: swapped }), { a: { id: 1 } });
  });

  it('is an object that a field to be left out holds: left out as well, wherever it stands', () => {
    const secret = (): object => marked({ secret: [{ id: 1 }, { strategy: 'EXCLUDE' }] }, (o) => o.secret);
    assert.deepEqual(publishes({ a: secret(), b: { c: secret(), list: [secret(), 2] } }), {
      b: { list: [2] },
    });
  });

  it('is hashed or encrypted whole where all of it is, and shows nothing where rules differ', () => {
    const hash = { strategy: 'HASH' } as const;
    const one: Fields = { a: ['value one', hash], b: ['value two', hash] };
    const { text } = publishes(marked(one, (o) => ({ text: `${o.a} ${o.b}` }))) as { text: string };
    assert.match(text, /^HASH\(/);
    for (const [left, right] of [
      [hash, custom()],
      [hash, { strategy: 'ENCRYPT' }],
      [custom(), { strategy: 'ENCRYPT' }],
      [{ strategy: 'ENCRYPT' }, { strategy: 'ENCRYPT', keyId: 'k1' }],
      [custom('WEAK'), { type: 'NAME' }],
    ] as const) {
      const two: Fields = { a: ['value one', left], b: ['value two', right] };
      assert.deepEqual(publishes(marked(two, (o) => ({ text: `${o.a} ${o.b}` }))), { text: '****' });
      // One value that two fields have, under a third name.
      const same: Fields = { a: ['value', left], b: ['value', right] };
      assert.deepEqual(publishes(marked(same, (o) => ({ text: o.a }))), { text: '****' });
      const shared = { list: ['value one'] };
      const objects: Fields = { a: [shared, left], b: [shared, right] };
      assert.deepEqual(publishes(marked(objects, (o) => ({ text: o.a }))), { text: { list: ['****'] } });
    }
  });

  it('keeps the rule of its own name where it is the value of that field', () => {
    const fields: Fields = { name: ['Ada', { type: 'NAME' }], login: ['Ada', custom()] };
    assert.deepEqual(publishes(marked(fields, (o) => ({ name: o.name, login: o.login }))), {
      name: 'A***',
      login: 'A****',
    });
  });

  it('follows a path rule for its place, which shows no part of what a mark hides', () => {
    const fields: Fields = { email: ['john.doe@gmail.com', { type: 'EMAIL' }] };
    const line = () => marked(fields, (o) => ({ line: `to ${o.email}`, mail: o.email }));
    const hashed = publishes(line(), ['line=CUSTOM:HASH', 'mail=EMAIL:MASK:STRONG']) as Record<
      string,
      string
    >;
    assert.match(hashed.line ?? '', /^HASH\(/);
    assert.equal(hashed.mail, '***@***.com');
    assert.equal((publishes(line(), ['line=CUSTOM:MASK:WEAK']) as { line: string }).line, '****');
  });

  it('of an object in another one knows the values of both', () => {
    const inner = marked({ note: ['note value', custom()] }, (o) => ({ text: `${o.note} of Mr. Miller` }));
    const outer = marked({ name: ['Miller', { strategy: 'EXCLUDE' }] }, () => ({ inner }));
    assert.deepEqual(publishes({ outer }), { outer: { inner: {} } });
  });

  it('is looked through for every one of many values', () => {
    const values = Array.from({ length: 5_000 }, (_, index) => `value number ${index} of`);
    const text = marked({ values: [values, custom()] }, () => ({ text: `some ${values[4_321]} all` }));
    assert.deepEqual(publishes(text), { text: '****' });
  });

  it('of other words, or a single character, stays as it is', () => {
    const fields: Fields = {
      initial: ['a', custom()],
      name: ['Li', { type: 'NAME' }],
      mark: ['--', custom()],
    };
    const made = { note: 'Leave a message', more: 'Liverpool -- 1 Ali', answer: 'Li' };
    assert.deepEqual(publishes(marked(fields, () => made)), { ...made, answer: 'L***' });
  });

  it('is refused where the values cannot be told apart in it', () => {
    refuses(
      { a: marked({ name: ['Ada', { type: 'NAME' }] }, () => 'A. E.') },
      'SVC_PROTECT_TOJSON_HIDES_FIELDS',
    );
  });

  it('shows no word of any value, wherever it stands and whatever the masks', () => {
    const types = [
      'NAME',
      'ADDRESS',
      'ACCOUNT',
      'PHONE',
      'CARD',
      'EMAIL',
      'CUSTOM',
      'NATIONAL_ID',
      'IP',
    ] as const;
    const mark = fc.record({
      type: fc.constantFrom(...types),
      level: fc.constantFrom('WEAK', 'NORMAL', 'STRONG'),
      strategy: fc.constantFrom('MASK', 'HASH', 'ENCRYPT', 'EXCLUDE'),
    }) as fc.Arbitrary<PiiFieldOptions>;
    const word = fc.stringMatching(/^q[a-z]{1,9}$/);
    const value = fc.array(word, { minLength: 1, maxLength: 3 }).map((words) => words.join(' '));
    const field = fc.tuple(value, mark);
    const fields = fc.array(field, { minLength: 1, maxLength: 4 });
    const between = fc.constantFrom(' ', ', ', ' - ', '/', ': ', '\n');
    const around = fc.constantFrom('', 'X ', 'Berlin, ', '+49 ', '1');
    fc.assert(
      fc.property(fields, between, around, around, fc.boolean(), (given, separator, before, after, named) => {
        // A value alone is masked as its own rule says, which may show its last four letters: a whole word, where that is short.
        fc.pre(given.length > 1 || before + after !== '');
        const all: Fields = Object.fromEntries(given.map((one, index) => [`f${index}`, one]));
        const text = (o: Record<string, unknown>) =>
          `${before}${separator}${Object.keys(all)
            .map((name) => o[name])
            .join(separator)}${separator}${after}`;
        const shown = publishes(marked(all, (o) => ({ [named ? 'f0' : 'text']: text(o) })));
        // Hashes and ciphertexts are Base64, in which any word can stand by chance.
        const clear = JSON.stringify(shown).replace(/(?:HASH|ENC)\([^)]*\)/g, '');
        for (const [value] of given) {
          for (const part of value.split(' ')) assert.equal(clear.includes(part), false, clear);
        }
      }),
      { numRuns: 1_000 },
    );
  });
});
