import assert from 'node:assert/strict';
import { createHmac, randomBytes } from 'node:crypto';
import { inspect } from 'node:util';
import fc from 'fast-check';
import { createSealer, openSalt } from '../../../src/protect/keys/create-sealer.ts';
import { checkKeyId, createKeyRing, toSecretKey } from '../../../src/protect/keys/key-ring.ts';
import { useLogger } from '../../support/log.ts';

const key = () => randomBytes(32).toString('base64');

describe('encryption keys', () => {
  it('are exactly 32 bytes', () => {
    for (const length of [0, 16, 31, 33, 64])
      assert.throws(() => toSecretKey(randomBytes(length)), {
        name: 'IllegalArgumentException',
        code: 'SVC_PROTECT_KEY_LENGTH',
        message: `Encryption key must be exactly 32 bytes, written in Base64; found ${length}`,
      });
    assert.equal(toSecretKey(randomBytes(32)).symmetricKeySize, 32);
    assert.equal(toSecretKey(key()).symmetricKeySize, 32);
  });

  it('are strict Base64, and the message shows nothing of them', () => {
    // Each of these gives 32 bytes in Node's own lenient decoder.
    const good = Buffer.alloc(32, 1).toString('base64');
    for (const bad of [`!${good}`, good.slice(0, -1), `${good}\n`, good.replaceAll('A', '-'), ` ${good}`]) {
      assert.throws(
        () => toSecretKey(bad),
        (error: Error) => {
          assert.equal(error.name, 'IllegalArgumentException');
          assert.match(error.message, new RegExp(`found ${bad.length}, read as characters$`));
          return !inspect(error).includes(good.slice(0, 10));
        },
      );
    }
    assert.throws(() => toSecretKey(Buffer.alloc(31, 1).toString('base64')), /found 31, read as Base64$/);
    assert.throws(() => toSecretKey(Buffer.alloc(33, 1).toString('base64')), /found 33, read as Base64$/);
  });

  it('are also 32 characters as they stand, like those of the configuration, whatever their Base64 would be', () => {
    for (const text of ['0123456789abcdef0123456789abcdef', 'äöü-'.repeat(4) + 'x'.repeat(4)])
      assert.deepEqual(toSecretKey(text).export(), Buffer.from(text));
    const base64 = key();
    assert.deepEqual(toSecretKey(base64).export(), Buffer.from(base64, 'base64'));
  });

  it('do not take the caller’s bytes away', () => {
    const bytes = randomBytes(32);
    const before = Buffer.from(bytes);
    toSecretKey(bytes);
    assert.deepEqual(bytes, before);
  });

  it('have ids of 1 to 128 letters, digits, underscores and hyphens', () => {
    for (const id of ['a', 'Z_9-', 'k'.repeat(128)]) assert.equal(checkKeyId(id), id);
    for (const id of ['', 'a/b', '../x', 'a.b', 'a:b', 'ä', 'a b', 'a\n', 'k'.repeat(129)])
      assert.throws(() => checkKeyId(id), { code: 'SVC_PROTECT_KEY_ID', message: /^Invalid key id/ }, id);
  });
});

describe('key ring', () => {
  it('encrypts with the primary key, and with the key that a rule names', () => {
    const ring = createKeyRing([
      { id: 'old', key: key(), status: 'decrypt' },
      { id: 'new', key: key(), status: 'primary' },
      { id: 'cards', key: key() },
    ]);
    assert.equal(ring.forEncryption(undefined).id, 'new');
    assert.equal(ring.forEncryption('new').id, 'new');
    assert.equal(ring.forEncryption('cards').id, 'cards');
    assert.throws(() => ring.forEncryption('old'), {
      code: 'SVC_PROTECT_KEY_UNKNOWN',
      message: /decryption only/,
    });
    assert.throws(() => ring.forEncryption('other'), { code: 'SVC_PROTECT_KEY_UNKNOWN' });
    assert.throws(() => ring.forEncryption('../x'), { code: 'SVC_PROTECT_KEY_ID' });
    assert.deepEqual(
      ring.all.map(({ id }) => id),
      ['new', 'old', 'cards'],
    );
    assert.equal(ring.find('old')?.id, 'old');
  });

  it('takes a key that stands alone for the primary one, unless it is for decryption', () => {
    assert.equal(createKeyRing([{ id: 'a', key: key() }]).forEncryption(undefined).id, 'a');
    const decrypting = createKeyRing([{ id: 'a', key: key(), status: 'decrypt' }]);
    assert.throws(() => decrypting.forEncryption(undefined), { code: 'SVC_PROTECT_NO_KEY' });
  });

  it('says that no key is configured', () => {
    for (const keys of [
      [],
      [
        { id: 'a', key: key() },
        { id: 'b', key: key() },
      ],
    ])
      assert.throws(() => createKeyRing(keys).forEncryption(undefined), {
        code: 'SVC_PROTECT_NO_KEY',
        message: /^PII encryption key is not configured/,
      });
  });

  it('refuses two primaries and an id twice', () => {
    const two = (a: string, b: string) => [
      { id: a, key: key(), status: 'primary' as const },
      { id: b, key: key(), status: 'primary' as const },
    ];
    assert.throws(() => createKeyRing(two('a', 'b')), { code: 'SVC_PROTECT_KEY_LIST' });
    assert.throws(() => createKeyRing(two('a', 'a')), { code: 'SVC_PROTECT_KEY_LIST' });
  });
});

const defaultSalt = 'svc-default-pii-hash-salt';
const createHasher = (salt: string | Uint8Array) => createSealer({ salt }).hash;

describe('hash', () => {
  it('is HASH(base64) of HMAC-SHA-256 with the salt as key, in UTF-8', () => {
    const expected = createHmac('sha256', Buffer.from('Sälz')).update(Buffer.from('Grüße')).digest('base64');
    assert.equal(createHasher('Sälz')('Grüße'), `HASH(${expected})`);
    const random = fc.tuple(
      fc.string({ minLength: 1, maxLength: 100, unit: 'binary' }),
      fc.string({ unit: 'binary', maxLength: 300 }),
    );
    fc.assert(
      fc.property(random, ([salt, plain]) => {
        const hmac = createHmac('sha256', salt).update(plain).digest('base64');
        assert.equal(createHasher(salt)(plain), `HASH(${hmac})`);
      }),
      {
        examples: [
          [['s', 'x'.repeat(256)]],
          [['s', '€'.repeat(256)]],
          [['s', '€'.repeat(257)]],
          [['s'.repeat(65), 'x']],
        ],
      },
    );
    assert.equal(createHasher(Buffer.from('Sälz'))('Grüße'), `HASH(${expected})`);
  });

  it('refuses an empty salt, which Node would take', () => {
    for (const salt of ['', new Uint8Array()])
      assert.throws(() => createHasher(salt), { code: 'SVC_PROTECT_NO_SALT' });
  });

  it('warns about the default salt and about short ones, and refuses to have none where one is required', () => {
    const warnings: string[] = [];
    const logger = { warn: (message: string) => void warnings.push(message) };
    const choose = (salt: string | undefined, requireSalt = false) => {
      useLogger(logger);
      const { value, announce } = openSalt({ salt, requireSalt });
      announce();
      return value;
    };

    assert.equal(choose('sixteen bytes ab'), 'sixteen bytes ab');
    assert.deepEqual(warnings, []);
    assert.equal(choose('secret-salt-15.'), 'secret-salt-15.');
    assert.equal(choose(undefined), defaultSalt);
    assert.equal(warnings.length, 2);
    for (const warning of warnings) assert.match(warning, /^SECURITY: /);
    assert.ok(!warnings.join().includes('secret-salt'));

    for (const refused of [choose(undefined, true), choose('')]) assert.equal(refused, undefined);
    assert.equal(warnings.length, 2);
    assert.throws(() => createSealer({}).hash('x'), {
      code: 'SVC_PROTECT_NO_SALT',
      message: /PII_HASH_SALT/,
    });
    assert.equal(choose('x'.repeat(16), true), 'x'.repeat(16));
  });

  it('says what there is to say about the salt once, and not before something is hashed', () => {
    const warnings: string[] = [];
    const logger = { warn: (message: string) => void warnings.push(message) };
    useLogger(logger);
    const salt = openSalt({ salt: undefined, requireSalt: false });
    assert.equal(salt.value, defaultSalt);
    assert.deepEqual(warnings, []);
    salt.announce();
    salt.announce();
    assert.equal(warnings.length, 1);
    assert.equal(openSalt({ salt: undefined, requireSalt: true }).value, undefined);
  });
});
