import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { sharedMemoryStore } from '../../src/adapters/memory/memory-broker.ts';
import { PiiField, registerMasker } from '../../src/index.ts';
import {
  assertSilent,
  canaries,
  canarySecrets,
  marked,
  type Person,
  type PersonClass,
  throwing,
} from './canary.ts';
import { eventCount, openCanaryCage } from './canary-cage.ts';

// With real key services and every sink: test/integration/canary-sinks.test.ts.
describe('canary: what is marked', () => {
  const { folder, spans, run, publishAll, assertNothingShown } = openCanaryCage();
  const fields = ['**.customer.email', 'contacts[*].phone'];
  const crypto = { defaultKey: canarySecrets.key, salt: canarySecrets.salt };

  it('is seen nowhere, by any strategy', async () => {
    run({ fields, crypto, detect: 'report' });
    const Person = marked({ phone: 'ENCRYPT', card: 'HASH', iban: 'EXCLUDE' });
    const thrown = await publishAll(Person, new Person());
    const { length } = sharedMemoryStore().all();
    assert.deepEqual(
      [length, thrown.length],
      [eventCount - 2, 2],
      'the key in clear and the failing expression are refused',
    );
    const [first] = sharedMemoryStore().all();
    assert.match(String(first?.record.value), /ENC\(.*HASH\(|HASH\(.*ENC\(/);
    assert.ok(spans.getFinishedSpans().length >= 10);
    await assertNothingShown(thrown);
  });

  it('is not in the files of the file broker', async () => {
    const path = join(folder, 'topics');
    run({ fields, crypto }, { client: 'file', file: { path } });
    const thrown = await publishAll(marked({ phone: 'HASH' }), {});
    const files = readdirSync(path).map((name) => readFileSync(join(path, name), 'utf8'));
    assert.ok(files.join('').split('\n').length > 8);
    assertSilent('files', files.join('\n'));
    await assertNothingShown(thrown);
  });

  const Marked = marked({});
  const failing: Readonly<
    Record<string, { pii: object; Person?: () => PersonClass; payload?: () => object; env?: object }>
  > = {
    'a getter throws': {
      pii: { fields, crypto },
      payload: () => ({
        person: new Marked(),
        get email() {
          return throwing();
        },
      }),
    },
    'a proxy throws': {
      pii: { fields, crypto },
      payload: () => new Proxy(new Marked(), { ownKeys: throwing }),
    },
    'toJSON throws': { pii: { fields, crypto }, payload: () => ({ person: new Marked(), toJSON: throwing }) },
    'the payload holds an error': {
      pii: { fields, crypto },
      payload: () => ({ person: new Marked(), error: new Error(canaries.email) }),
    },
    'the payload refers to itself': {
      pii: { fields, crypto },
      payload: () => {
        const person = new Marked() as Person & { self?: unknown };
        person.self = person;
        return person;
      },
    },
    'there is no key': { pii: { fields }, Person: () => marked({ email: 'ENCRYPT' }) },
    'there is no such key': {
      pii: { fields, crypto },
      Person: () => {
        const Person = marked({});
        PiiField({ strategy: 'ENCRYPT', keyId: 'nobody-has-it' })(Person.prototype, 'email');
        return Person;
      },
    },
  };
  for (const [what, { pii, Person, payload }] of Object.entries(failing)) {
    it(`is seen nowhere when ${what}`, async () => {
      run(pii);
      const One = Person?.() ?? Marked;
      const thrown = await publishAll(One, payload?.() ?? new One());
      assert.ok(thrown.length >= 3, `${thrown.length} refused`);
      await assertNothingShown(thrown);
    });
  }

  it('is seen nowhere when a masker shows it', async () => {
    for (const bad of [throwing, (text: string) => text, (text: string) => `<${text}>`])
      registerMasker('bad', bad);
    run({ fields: fields.map((path) => ({ path, masker: 'bad' })), crypto });
    await assertNothingShown(await publishAll(Marked, {}));
  });
});

describe('canary: the canary itself', () => {
  it('is found where it is published unprotected', () => {
    assert.throws(() => assertSilent('here', `to ${canaries.email}`));
    assert.throws(() => assertSilent('here', Buffer.from(canaries.name).toString('base64')));
  });
});
