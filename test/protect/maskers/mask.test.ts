import assert from 'node:assert/strict';
import fc from 'fast-check';
import {
  type FieldRule,
  type PiiLevel,
  type PiiType,
  piiLevels,
  piiTypes,
} from '../../../src/ground/pii-rule.ts';
import { type Masker, mask, registerMasker } from '../../../src/protect/mask.ts';

const rule = (type: PiiType, level: PiiLevel, masker?: string): FieldRule => ({
  type,
  strategy: 'MASK',
  level,
  masker,
});
const masked = (type: PiiType, level: PiiLevel, text: string) => mask(text, rule(type, level));

const forms: readonly (readonly [PiiType, text: string, weak: string, normal: string, strong: string])[] = [
  ['EMAIL', 'john.doe@gmail.com', 'joh***@gmail.com', 'jo******@gm***.com', '***@***.com'],
  ['EMAIL', 'ab@x.io', 'a***@x.io', 'a***@x***.io', '***@***.io'],
  ['EMAIL', 'a@b.c', '***@b.c', '***@b***.c', '***@***.c'],
  ['EMAIL', 'x@localhost', '***@localhost', '***@lo*******', '***@***'],
  ['EMAIL', 'john@mail.example.co.uk', 'jo***@mail.example.co.uk', 'jo**@ma*************.uk', '***@***.uk'],
  ['EMAIL', 'a@[127.0.0.1]', '***@[127.0.0.1]', '***@[1******', '***@***'],
  ['EMAIL', 'John <john@x.com>', '****', '****', '****'],
  ['EMAIL', 'a@b@c.com', '****', '****', '****'],
  ['EMAIL', 'no address', '****', '****', '****'],
  ['EMAIL', '@x.com', '****', '****', '****'],
  ['EMAIL', 'x@', '****', '****', '****'],
  ['PHONE', '010-1234-5678', '010-1234-****', '010-****-5678', '010-****-****'],
  ['PHONE', '01012345678', '0101234****', '010-****-5678', '***********'],
  ['PHONE', '555-123-4567', '555-123-****', '555-****-4567', '***-***-****'],
  ['PHONE', '+1 (555) 123-4567', '+1 (555) 123-****', '+* (***) ***-4567', '+* (***) ***-****'],
  ['PHONE', '+49 30 901820', '+49 30 90****', '+** ** **1820', '+** ** ******'],
  ['PHONE', '+44 20 7946 0958', '+44 20 7946 ****', '+** ** **** 0958', '+** ** **** ****'],
  ['PHONE', '555.123.4567', '555.123.****', '***.***.4567', '***.***.****'],
  ['PHONE', '123-4567', '123-****', '***-**67', '***-****'],
  ['PHONE', '1234', '****', '****', '****'],
  ['PHONE', '1-800-FLOWERS', '****', '****', '****'],
  ['PHONE', '٠١٠-١٢٣٤-٥٦٧٨', '٠١٠-١٢٣٤-****', '***-****-٥٦٧٨', '***-****-****'],
  ['NAME', 'Jane Doe', 'J******e', 'J*** D***', '****'],
  ['NAME', 'A', '****', '****', '****'],
  ['NAME', 'Al', 'A**', 'A***', '****'],
  ['NAME', 'Bob', 'B**', 'B***', '****'],
  ['NAME', 'John A Doe', 'J********e', 'J*** **** D***', '****'],
  ['NAME', '𝒥ohn 𝒟oe', '𝒥******e', '𝒥*** 𝒟***', '****'],
  ['NAME', 'one two three four five six seven', 'o*******************************n', '****', '****'],
  ['CARD', '4111 1111 1111 1111', '411111******1111', '************1111', '****'],
  ['CARD', '4222222222222', '422222***2222', '*********2222', '****'],
  ['CARD', '411111111111', '****', '****', '****'],
  ['CARD', '4111-1111-1111-1111-111', '411111*********1111', '***************1111', '****'],
  ['CARD', '41111111111111111111', '****', '****', '****'],
  ['NATIONAL_ID', '123-45-6789', '****6789', '****', '****'],
  ['NATIONAL_ID', '900101-1234567', '****4567', '****', '****'],
  ['NATIONAL_ID', '1234567', '****', '****', '****'],
  ['ACCOUNT', 'DE89 3704 0044 0532 0130 00', 'DE89****3000', 'DE89****', 'DE****'],
  ['ACCOUNT', '0532013000', '****3000', '****', '****'],
  ['ACCOUNT', '1234', '****', '****', '****'],
  ['IP', '192.168.1.20', '192.168.1.*', '192.168.*.*', '****'],
  ['IP', '2001:db8:85a3::8a2e:370:7334', '2001:db8:85a3:****', '2001:db8:****', '****'],
  ['IP', '::1', '0:0:0:****', '0:0:****', '****'],
  ['IP', '::ffff:10.0.0.1', '::ffff:10.0.0.*', '::ffff:10.0.*.*', '****'],
  ['IP', 'fe80::1%eth0', 'fe80:0:0:****', 'fe80:0:****', '****'],
  ['IP', 'somewhere', '****', '****', '****'],
  ['ADDRESS', '12 Main St, 10115 Berlin', '****, ***** Berlin', '****', '****'],
  ['ADDRESS', '12 Main St', '****', '****', '****'],
  ['ADDRESS', ', Berlin', '****', '****', '****'],
  ['CUSTOM', 'something', 'som****', 'so****', '****'],
  ['CUSTOM', 'ab', '****', '****', '****'],
  ['CUSTOM', 'abcd', 'a****', 'a****', '****'],
  ['CUSTOM', 'a'.repeat(100), 'aaaaaaaa****', 'aa****', '****'],
];

describe('mask', () => {
  for (const [type, text, ...expected] of forms) {
    it(`${type} ${text.slice(0, 40)}`, () =>
      assert.deepEqual(
        piiLevels.map((level) => masked(type, level, text)),
        expected,
      ));
  }

  it('gives never its input, not even where that looks like a mask', () => {
    const texts = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.string({ unit: fc.constantFrom('*', 'a', '@', '.', '1', ' ', '-', ',', '😀') }),
      fc.emailAddress(),
      fc.ipV4(),
      fc.ipV6(),
      fc.stringMatching(/^[+]?\d{3,20}$/),
      fc.constantFrom('', '*', '***', '****', 'a****', '***@***.com', '010-****-5678', 'J***'),
    );
    fc.assert(
      fc.property(texts, fc.constantFrom(...piiTypes), fc.constantFrom(...piiLevels), (text, type, level) => {
        assert.notEqual(masked(type, level, text), text);
      }),
      { numRuns: 20_000 },
    );
  });

  it('holds at most a part of a value of some length', () => {
    const word = fc.stringMatching(/^[a-z]{6,20}$/);
    const digits = fc.stringMatching(/^[1-9]{16}$/);
    const hidden: readonly (readonly [PiiType, fc.Arbitrary<{ text: string; secret: string }>])[] = [
      ['EMAIL', word.map((local) => ({ text: `${local}@example.com`, secret: local.slice(3) }))],
      ['NAME', word.map((name) => ({ text: name, secret: name.slice(1, -1) }))],
      [
        'PHONE',
        fc.stringMatching(/^[1-9]{4}$/).map((end) => ({ text: `+49 30 12${end}78`, secret: `12${end}78` })),
      ],
      ['CARD', digits.map((text) => ({ text, secret: text.slice(6, 12) }))],
      ['NATIONAL_ID', word.map((text) => ({ text: `AB${text}`, secret: `AB${text.slice(0, -4)}` }))],
      ['ACCOUNT', digits.map((text) => ({ text: `DE89${text}`, secret: text.slice(0, -4) }))],
      ['ADDRESS', word.map((street) => ({ text: `12 ${street} street, Berlin`, secret: street }))],
      ['CUSTOM', word.map((text) => ({ text, secret: text.slice(Math.floor(text.length / 3)) }))],
      ['IP', fc.integer({ min: 10, max: 255 }).map((end) => ({ text: `10.1.2.${end}`, secret: `.${end}` }))],
      ['IP', fc.stringMatching(/^[1-9a-f]{4}$/).map((end) => ({ text: `2001:db8::${end}`, secret: end }))],
    ];
    for (const [type, values] of hidden) {
      fc.assert(
        fc.property(values, fc.constantFrom(...piiLevels), ({ text, secret }, level) => {
          assert.equal(masked(type, level, text).includes(secret), false, `${type} ${level}`);
        }),
      );
    }
  });

  it('STRONG shows neither beginning nor end of a text', () => {
    const word = fc.stringMatching(/^[a-z]{4,30}$/);
    fc.assert(
      fc.property(word, fc.constantFrom(...piiTypes), (text, type) => {
        const result = masked(type, 'STRONG', text);
        assert.equal(/[a-z]/.test(result), false);
      }),
    );
  });

  it('cuts no pair of surrogates', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom('😀', '𝒥', 'a', '@', '.', ' ') }),
        fc.constantFrom(...piiTypes),
        fc.constantFrom(...piiLevels),
        (text, type, level) => assert.ok(masked(type, level, text).isWellFormed()),
      ),
      { numRuns: 5000 },
    );
  });

  for (const character of ['a', '1', '@', ',', ' ', '.', ':', '😀', 'a@b.', '1-']) {
    it(`takes a megabyte of "${character}" in less than 20 ms`, () => {
      const text = character.repeat(1_000_000 / character.length);
      for (const type of piiTypes) {
        for (const level of piiLevels) {
          const before = process.cpuUsage();
          const result = masked(type, level, text);
          const { user, system } = process.cpuUsage(before);
          assert.ok((user + system) / 1000 < 20, `${type} ${level}: ${(user + system) / 1000} ms`);
          assert.ok(result.length < 300);
        }
      }
    });
  }
});

describe('registerMasker', () => {
  const run = (masker: unknown, text = 'secret') => {
    registerMasker('mine', masker as Masker);
    return mask(text, rule('CUSTOM', 'NORMAL', 'mine'));
  };

  it('adds a masker that rules name', () => {
    assert.equal(
      run((text: string, level: string) => `${level}:${text.length}`),
      'NORMAL:6',
    );
  });

  it('publishes **** where the masker cannot be trusted', async () => {
    const bad: unknown[] = [
      () => {
        throw new Error('secret');
      },
      (text: string) => text,
      (text: string) => `<${text}>`,
      () => undefined,
      () => 7,
      () => Promise.reject(new Error('secret')),
      () => new String('secret'),
    ];
    for (const masker of bad) assert.equal(run(masker), '****');
    assert.equal(
      run((text: string) => text, ''),
      '****',
    );
    assert.equal(
      run((text: string) => text, '****'),
      '***',
    );
    await new Promise((resolve) => setImmediate(resolve));
  });

  it('publishes **** for a masker that nobody registered', () => {
    assert.equal(mask('secret', rule('EMAIL', 'WEAK', 'unknown')), '****');
  });

  it('can replace the one of a type', () => {
    const types: readonly PiiType[] = ['NATIONAL_ID'];
    for (const type of types) registerMasker(type, () => 'own');
    assert.equal(masked('NATIONAL_ID', 'WEAK', '123-45-6789'), 'own');
    registerMasker('NATIONAL_ID', (_, level) => (level === 'WEAK' ? '****6789' : '****'));
  });

  it('wants a name and a function', () => {
    assert.throws(() => registerMasker('', () => ''), TypeError);
    assert.throws(() => registerMasker('x', 'y' as unknown as Masker), TypeError);
  });
});
