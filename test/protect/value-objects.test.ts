import assert from 'node:assert/strict';
import { PiiField, type PiiFieldOptions } from '../../src/protect/marks/policy.ts';
import { publishes, refuses } from './protecting.ts';

const secret = 'canary@example.com';

/** An object that marks `secret`, and composes its JSON as it is told. */
function owner(
  held: unknown,
  compose: (held: never) => unknown,
  mark: PiiFieldOptions = { type: 'EMAIL' },
): object {
  class Owner {
    readonly secret = held;
    toJSON(): unknown {
      return { id: 17, line: compose(held as never), more: ['a', { b: true }] };
    }
  }
  PiiField(mark)(Owner.prototype, 'secret');
  return new Owner();
}

class Private {
  readonly #text: string;
  constructor(text: string) {
    this.#text = text;
  }
  get value(): string {
    return this.#text;
  }
  toString(): string {
    return this.#text;
  }
}

class PrivateAmongOthers {
  readonly kind = 'email address';
  readonly #text = secret;
  static read(one: PrivateAmongOthers): string {
    return one.#text;
  }
}

const texts = new WeakMap<object, string>();
class Weak {
  readonly kind = 'weak';
  constructor(text: string) {
    texts.set(this, text);
  }
}

class Primitive {
  readonly #text = secret;
  [Symbol.toPrimitive](): string {
    return this.#text;
  }
}

class Closure {
  readonly value = () => secret;
}

class Redacting extends Private {
  toJSON(): string {
    return '[redacted]';
  }
}

class Method {
  readonly said: unknown;
  readonly #text = secret;
  constructor(said: unknown) {
    this.said = said;
  }
  reveal(): string {
    return this.#text;
  }
  toJSON(): unknown {
    return this.said;
  }
}
class Holding {
  readonly inner: unknown;
  constructor(inner: unknown) {
    this.inner = inner;
  }
  toJSON(): string {
    return 'a holder';
  }
}
class HoldingInPrivate {
  readonly #inner: Private;
  constructor(inner: Private) {
    this.#inner = inner;
  }
  get inner(): Private {
    return this.#inner;
  }
  toJSON(): string {
    return 'a holder';
  }
}
class OwnText extends String {
  readonly #text = secret;
  reveal(): string {
    return this.#text;
  }
}
class OwnUrl extends URL {
  readonly #text = secret;
  reveal(): string {
    return this.#text;
  }
}
class OwnBytes extends Uint8Array {
  readonly #text = secret;
  reveal(): string {
    return this.#text;
  }
}
const proxy = new Proxy({ kind: 'x' }, { get: (_, key) => (key === 'text' ? secret : undefined) });

const symbol = Symbol('text');
const hidden = Object.defineProperty({ kind: 'x' }, 'text', { value: secret });
const born = new Date('1987-03-01T00:00:00.000Z');
const url = new URL('https://canary.example.com/a%20canary/x?of=an%40owner.example.com');

describe('a marked field that holds an object', () => {
  const cases: Readonly<Record<string, readonly [held: unknown, compose: (held: never) => unknown]>> = {
    'a getter of a private field': [new Private(secret), (held: Private) => held.value],
    'a private field made text': [new Private(secret), (held: Private) => `mailto:${held}`],
    'a static function': [new PrivateAmongOthers(), PrivateAmongOthers.read],
    'a WeakMap': [new Weak(secret), (held: Weak) => texts.get(held)],
    'Symbol.toPrimitive': [new Primitive(), (held: Primitive) => `${held as never}`],
    'a function in a property': [new Closure(), (held: Closure) => held.value()],
    'a function': [() => secret, (held: () => string) => held()],
    'a symbol as key': [{ [symbol]: secret }, (held: { [symbol]: string }) => held[symbol]],
    'a property that is not enumerable': [hidden, (held: { text: string }) => held.text],
    'an object whose JSON is redacted, and a getter': [new Redacting(secret), (held: Private) => held.value],
    'keys of a map': [new Map([[secret, 1]]), (held: Map<string, number>) => [...held.keys()]],
    'a set of value objects': [new Set([new Private(secret)]), (held: Set<Private>) => [...held].join()],
    'a list of value objects': [[new Private(secret)], (held: Private[]) => held.map(String)],
    'a buffer': [Buffer.from(secret), (held: Buffer) => held.toString()],
    'a buffer in hexadecimal': [Buffer.from(secret), (held: Buffer) => `0x${held.toString('hex')}`],
    'characters as numbers': [
      Uint16Array.from(secret, (each) => each.charCodeAt(0)),
      (held: Uint16Array) => String.fromCharCode(...held),
    ],
    'a date as number': [born, (held: Date) => held.getTime()],
    'a date as seconds': [born, (held: Date) => held.getTime() / 1_000],
    'a date as text': [born, (held: Date) => `born ${held}`],
    'the day of a date': [born, (held: Date) => held.toISOString().slice(0, 10)],
    'the host of a URL': [url, (held: URL) => held.hostname],
    'the path of a URL': [url, (held: URL) => decodeURIComponent(held.pathname)],
    'a parameter of a URL': [url, (held: URL) => held.searchParams.get('of')],
    'an error': [new Error(secret), (held: Error) => held.message],
    'what a symbol describes': [Symbol(secret), (held: symbol) => held.description],
    'a boxed text': [new String(secret), (held: string) => `${held}`],
    'a boxed text with a field of its own': [new OwnText('x'), (held: OwnText) => held.reveal()],
    'a URL with a field of its own': [new OwnUrl('https://a.example'), (held: OwnUrl) => held.reveal()],
    'bytes with a field of their own': [new OwnBytes(3), (held: OwnBytes) => held.reveal()],
    'a proxy': [proxy, (held: { text: string }) => held.text],
    'a value object two levels deep': [
      new Holding(new Holding(new Private(secret))),
      (held: { inner: { inner: Private } }) => held.inner.inner.value,
    ],
    'a value object in a private field': [
      new HoldingInPrivate(new Private(secret)),
      (held: HoldingInPrivate) => held.inner.value,
    ],
    'value objects in a map in another': [
      new Holding(new Map([['a', new Private(secret)]])),
      (held: { inner: Map<string, Private> }) => `${held.inner.get('a')}`,
    ],
    'a method, and a JSON of stars': [new Method('c***'), (held: Method) => held.reveal()],
    'a method, and a JSON that says hidden': [new Method('<hidden>'), (held: Method) => held.reveal()],
    'a method, and an empty JSON': [new Method({}), (held: Method) => held.reveal()],
    'a method, and a boolean as JSON': [new Method(true), (held: Method) => held.reveal()],
    'a generator': [
      (function* () {
        yield secret;
      })(),
      (held: Iterable<string>) => [...held].join(''),
    ],
    'search parameters': [new URLSearchParams({ a: secret }), (held: URLSearchParams) => held.get('a')],
    'a locale': [new Intl.Locale('de-x-canary'), (held: Intl.Locale) => String(held)],
    'a text that is inherited': [
      Object.create({ text: secret }, { kind: { value: 1, enumerable: true } }),
      (held: { text: string }) => held.text,
    ],
    'a list of characters': [[...secret], (held: string[]) => held.join('')],
    'a list of their numbers': [
      Array.from(secret, (each) => each.charCodeAt(0)),
      (held: number[]) => String.fromCharCode(...held),
    ],
    'the JSON of a buffer': [Buffer.from(secret), (held: Buffer) => JSON.stringify(held)],
    'the bytes of a buffer': [Buffer.from(secret), (held: Buffer) => held.toJSON()],
    'the hash of a URL': [new URL('https://a.example/#canary'), (held: URL) => held.hash.slice(1)],
    'the key of a parameter': [
      new URL('https://a.example/?canary=1'),
      (held: URL) => [...held.searchParams.keys()].join(),
    ],
    'the day of a date in German': [born, () => '1.3.1987'],
    'a date in SQL': [born, () => 'at 1987-03-01 00:00:00'],
    'a day of a text': ['1987-03-01T10:20:30+01:00', () => '1987-03-01'],
    'a date of a number': [born.getTime(), (held: number) => new Date(held)],
  };
  for (const [what, [held, compose]] of Object.entries(cases)) {
    for (const strategy of ['MASK', 'HASH', 'ENCRYPT', 'EXCLUDE'] as const) {
      it(`shows none of its text: ${what}, ${strategy}`, () => {
        const sent = JSON.stringify(publishes(owner(held, compose, { type: 'EMAIL', strategy })));
        assert.doesNotMatch(sent, /canary|owner\.example|1987|541555200|63616e617279|99,97,110/i);
      });
    }
  }

  it('is said to hold a text that nobody can read, without the text', () => {
    const said: string[] = [];
    const onUnreadable = (...names: string[]) => said.push(names.join(' '));
    publishes(
      owner(new Private(secret), () => 'x'),
      [],
      { onUnreadable },
    );
    publishes(
      owner({ text: secret }, () => 'x'),
      [],
      { onUnreadable },
    );
    assert.deepEqual(said, ['E secret']);
  });

  it('hides all that is composed around a text that nobody can read', () => {
    assert.deepEqual(publishes(owner(new Private(secret), (held: Private) => held.value)), {
      ...{ id: '****', line: '****', more: ['****', { b: '****' }] },
    });
  });

  class Spoken extends Private {
    toJSON(): string {
      return this.value;
    }
  }
  class Address {
    readonly street = 'Hauptstrasse 5';
    readonly city = 'Berlin';
  }
  const known: Readonly<
    Record<string, readonly [held: unknown, compose: (held: never) => unknown, line: unknown]>
  > = {
    'its class has a toJSON': [new Spoken(secret), (held: Spoken) => held.value, 'ca****@ex*****.com'],
    'its class has fields only': [new Address(), (held: Address) => `in ${held.city}`, '****'],
    'it is a plain object': [{ city: 'Berlin' }, (held: Address) => `in ${held.city}`, '****'],
    'it is empty': [{}, () => 'anything', 'anything'],
    'it is an empty list': [[], () => 'anything', 'anything'],
    'it is a date': [born, () => 'anything', 'anything'],
    'it is not there': [undefined, () => 'anything', 'anything'],
  };
  for (const [what, [held, compose, line]] of Object.entries(known)) {
    it(`leaves the rest as it is where ${what}`, () => {
      assert.deepEqual(publishes(owner(held, compose)), { id: 17, line, more: ['a', { b: true }] });
    });
  }
});

describe('a marked text that toJSON escapes', () => {
  const text = 'Jane "Jo" O\'Brien\n<jane.o+brien@exämple.com>';
  const base64 = (value: string) => Buffer.from(value).toString('base64');
  const escapes: Readonly<Record<string, (value: string) => string>> = {
    JSON: (value) => JSON.stringify({ value }),
    'JSON in JSON': (value) => JSON.stringify(JSON.stringify([value])),
    'JSON of ASCII': (value) =>
      JSON.stringify(value).replace(
        /[^ -~]/g,
        (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`,
      ),
    URL: (value) => `https://example.com/?q=${encodeURIComponent(value)}`,
    'URL, the part that is allowed left': (value) => encodeURI(value),
    form: (value) => String(new URLSearchParams({ value })),
    'JSON in a URL': (value) => encodeURIComponent(JSON.stringify({ value })),
    HTML: (value) =>
      `<a>${value.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;').replaceAll("'", '&#39;')}</a>`,
    'HTML in numbers': (value) =>
      value.replace(/[^a-z ]/gi, (each) => `&#x${each.codePointAt(0)?.toString(16)};`),
    Base64: base64,
    'Base64 behind one character': (value) => `Basic ${base64(`x${value}`)}`,
    'Base64 behind two characters': (value) => `Basic ${base64(`xy${value}:password`)}`,
    'Base64 in JSON': (value) => JSON.stringify({ token: base64(`user:${value}`) }),
    'Base64 for URLs': (value) => Buffer.from(`xy${value}`).toString('base64url'),
    'Base64 in lines': (value) => base64(`${value} `.repeat(4)).replace(/.{76}/g, '$&\r\n'),
    'Base64 in Base64': (value) => base64(base64(value)),
    'Base64 of upper case': (value) => base64(value.toUpperCase()),
    'Base64 of decomposed characters': (value) => base64(value.normalize('NFD')),
    'Base64 of UTF-16': (value) => Buffer.from(value, 'utf16le').toString('base64'),
    'hex, by colons': (value) => Buffer.from(value).toString('hex').replace(/../g, '$&:'),
    'hex, as C has it': (value) => Buffer.from(value).toString('hex').replace(/../g, '0x$&, '),
    'the numbers of its bytes': (value) => JSON.stringify(Buffer.from(value)),
    'JSON six times': (value) => {
      let text = value;
      for (let level = 0; level < 6; level++) text = JSON.stringify(text);
      return text;
    },
    'every byte in a URL': (value) => Buffer.from(value).toString('hex').replace(/../g, '%$&'),
    'a URL of Latin-1': (value) => Buffer.from(value, 'latin1').toString('hex').replace(/../g, '%$&'),
    'a URL of old': (value) => escape(`€${value}`),
    'HTML in decimal numbers with zeros': (value) =>
      value.replace(/[^a-z ]/gi, (each) => `&#0000${each.codePointAt(0)};`),
    'HTML by names': (value) => value.replaceAll('ä', '&auml;').replaceAll('<', '&lt;'),
    'octal numbers': (value) => value.replace(/[^ -~]/g, (each) => `\\${each.charCodeAt(0).toString(8)}`),
    CSS: (value) => value.replace(/[@<"\n]/g, (each) => `\\${each.charCodeAt(0).toString(16)} `),
    CSV: (value) => `1;"${value.replaceAll('"', '""')}"`,
    SQL: (value) => `'${value.replaceAll("'", "''")}'`,
    'a shell': (value) => `'${value.replaceAll("'", "'\\''")}'`,
    'quoted-printable': (value) =>
      value.replace(/[^ -~]/g, (each) =>
        Buffer.from(each).toString('hex').toUpperCase().replace(/../g, '=$&'),
      ),
    'decomposed characters': (value) => `to ${value.normalize('NFD')}`,
    'no accents': (value) => `to ${value.normalize('NFD').replace(/\p{M}/gu, '')}`,
    'wide characters': (value) =>
      value.replace(/[!-~]/g, (each) => String.fromCodePoint((each.codePointAt(0) ?? 0) + 0xfee0)),
    'unseen characters': (value) => value.replace(/./g, '$&\u200b'),
    'other spaces': (value) => `to ${value.replaceAll(' ', '\u00a0 ')}`,
    'a name for an address': (value) => value.toLowerCase().replace(/[^a-zä]+/g, '-'),
    hex: (value) => `\\x${Buffer.from(value).toString('hex').toUpperCase()}00`,
  };
  for (const [what, escaped] of Object.entries(escapes)) {
    it(`is masked whole: ${what}`, () => {
      assert.deepEqual(publishes(owner(text, escaped as (held: never) => string)), {
        ...{ id: 17, line: '****', more: ['a', { b: true }] },
      });
    });
  }

  it('is no other text that is escaped', () => {
    const line = JSON.stringify({ url: 'a%20b&amp;c', data: base64('somebody else entirely') });
    assert.deepEqual(publishes(owner(text, () => line)), { id: 17, line, more: ['a', { b: true }] });
  });
});

describe('an object with a toJSON that holds objects of marked classes', () => {
  class Customer {
    readonly id = 5;
    readonly email: unknown = secret;
    readonly age = 7;
    readonly isNew: boolean = true;
  }
  PiiField({ type: 'EMAIL' })(Customer.prototype, 'email');
  PiiField({ type: 'CUSTOM' })(Customer.prototype, 'age');
  PiiField({ type: 'CUSTOM' })(Customer.prototype, 'isNew');
  class Model {
    readonly dataValues: unknown;
    constructor(values: object) {
      this.dataValues = values;
    }
    toJSON(): unknown {
      return plainOf(this.dataValues);
    }
  }
  /** As ORMs do it. */
  function plainOf(value: unknown): unknown {
    if (value instanceof Model) return plainOf(value.dataValues);
    if (value instanceof Map) return plainOf(Object.fromEntries(value));
    if (Array.isArray(value) || value instanceof Set) return [...value].map(plainOf);
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, plainOf(each)]));
  }
  class Reference {
    readonly entity: unknown;
    constructor(entity: unknown) {
      this.entity = entity;
    }
  }
  const hidden = { id: 5, email: 'ca****@ex*****.com', age: '****', isNew: '****' };
  const cases: Readonly<Record<string, readonly [held: unknown, shown: unknown]>> = {
    'one of them': [new Customer(), hidden],
    'in a list': [[new Customer()], [hidden]],
    'in a map': [new Map([['a', new Customer()]]), { a: hidden }],
    'in a set': [new Set([new Customer()]), [hidden]],
    'in a plain object': [{ deep: { er: new Customer() } }, { deep: { er: hidden } }],
    'in another model': [
      new Model({ list: [new Model({ customer: new Customer() })] }),
      { list: [{ customer: hidden }] },
    ],
    'in an object of another class': [new Reference(new Customer()), { entity: hidden }],
  };
  let deep: readonly [held: unknown, shown: unknown] = [new Customer(), hidden];
  for (let level = 0; level < 12; level++) deep = [{ deep: deep[0] }, { deep: deep[1] }];
  const many = Array.from({ length: 2_000 }, (_, id) => ({ id }));
  class List extends Array {}
  class Entries extends Map<number, unknown> {
    toJSON(): unknown {
      return [...this.values()].map(plainOf);
    }
  }
  const moreCases: typeof cases = {
    'at many levels': deep,
    'behind many values': [
      { many, last: new Customer() },
      { many, last: hidden },
    ],
    'in a list of a class': [List.of(new Customer()), [hidden]],
    'in an object without a prototype': [
      Object.assign(Object.create(null), { a: new Customer() }),
      { a: hidden },
    ],
    'in a map with a toJSON': [new Entries([[1, new Customer()]]), { 1: hidden }],
    'by a getter': [
      {
        get customer() {
          return new Customer();
        },
      },
      { customer: hidden },
    ],
    'of a class that extends a marked one': [new (class extends Customer {})(), hidden],
  };
  for (const [what, [held, shown]] of Object.entries({ ...cases, ...moreCases })) {
    it(`shows none of their marked values: ${what}`, () => {
      const rest = { id: 17, note: 'a note', isPaid: true, count: 7 };
      assert.deepEqual(publishes({ order: new Model({ ...rest, held }) }), {
        order: { ...rest, held: shown },
      });
      assert.deepEqual(publishes([new Model({ ...rest, held })]), { value: [{ ...rest, held: shown }] });
    });
  }

  it('shows none of a map, or of a list, that has a toJSON itself', () => {
    assert.deepEqual(publishes({ a: new Entries([[1, new Customer()]]) }), { a: [hidden] });
    const list = Object.assign([new Customer()], { toJSON: () => ({ mail: secret }) });
    assert.deepEqual(publishes({ a: list }), { a: { mail: hidden.email } });
  });

  it('asks no getter of a class, and leaves what has no marks as it is', () => {
    let reads = 0;
    class Asking extends Model {}
    Object.defineProperty(Asking.prototype, 'rows', { enumerable: true, get: () => ++reads });
    const values = { id: 1, list: [{ a: 1 }, [2]], at: new Date(0), money: new Model({ amount: 5 }) };
    assert.deepEqual(publishes(new Asking(values)), {
      ...{ id: 1, list: [{ a: 1 }, [2]], at: {}, money: { amount: 5 } },
    });
    assert.equal(reads, 0);
  });

  it('shows none in a text', () => {
    class Line extends Model {
      override toJSON(): unknown {
        return `order of ${((this.dataValues as { customer: Customer }).customer.email as string).toUpperCase()}`;
      }
    }
    assert.deepEqual(publishes({ a: new Line({ customer: new Customer() }) }), { a: '****' });
  });

  it('shows nothing around one whose text nobody can read', () => {
    class Hiding extends Customer {
      override readonly email = new Private(secret);
    }
    class Line extends Model {
      override toJSON(): unknown {
        return { id: 1, mail: String((this.dataValues as Hiding).email) };
      }
    }
    assert.deepEqual(publishes(new Line(new Hiding())), { id: '****', mail: '****' });
  });

  it('looks through no more than a part of what else it holds, and through that once', () => {
    let reads = 0;
    class Connection {
      readonly parts: unknown[];
      constructor(parts: unknown[]) {
        this.parts = parts;
      }
      get size(): number {
        return ++reads;
      }
    }
    const library = new Connection(Array.from({ length: 5_000 }, () => new Connection([])));
    Object.defineProperty(library, 'own', { enumerable: true, get: () => ++reads });
    const models = Array.from({ length: 2_000 }, (_, id) => {
      const model = new Model({ id, customer: new Customer() });
      return Object.assign(model, { library });
    });
    const sent = publishes({ models }) as { models: object[] };
    assert.deepEqual([sent.models[1_999], reads], [{ id: 1_999, customer: hidden }, 0]);
  });
});

describe('a marked value that toJSON returns as a key', () => {
  const keys: Readonly<Record<string, (text: string) => unknown>> = {
    'of an object': (text) => ({ [text]: 1 }),
    'among other text': (text) => ({ [`user:${text}`]: 1 }),
    'of a map': (text) => new Map([[text, 1]]),
    'in a list': (text) => [[{ [text]: 1 }]],
    escaped: (text) => ({ [encodeURIComponent(text)]: 1 }),
    'in Base64 like a name': (text) => ({ [Buffer.from(text).toString('base64url')]: 1 }),
    'in Base64 among other text': (text) => ({ [Buffer.from(`u:${text}`).toString('base64url')]: 1 }),
    'in Base64 of Base64': (text) => ({
      [Buffer.from(Buffer.from(text).toString('base64')).toString('base64url').slice(0, 60)]: 1,
    }),
    'in hexadecimal like a name': (text) => ({ [`x${Buffer.from(text).toString('hex').slice(0, 63)}`]: 1 }),
  };
  for (const [what, compose] of Object.entries(keys))
    it(`is refused: ${what}`, () =>
      refuses(owner(secret, compose as (held: never) => unknown), 'SVC_PROTECT_TOJSON_HIDES_FIELDS', [], {
        secret,
      }));

  it('is no name that stands in it, or is shorter', () => {
    const names = { addressOfOrder: 'x', Address: 1, 'a b': 2 };
    assert.deepEqual(publishes(owner('address', () => names)), {
      id: 17,
      line: names,
      more: ['a', { b: true }],
    });
  });
});
