import assert from 'node:assert/strict';
import fc from 'fast-check';
import { cipherTexts } from '../../src/protect/keys/key-ring.ts';
import { registerMasker } from '../../src/protect/mask.ts';
import { ownText } from '../../src/protect/own-text.ts';
import { payloadJson } from '../../src/serialize/serializer.ts';
import { publishes } from './protecting.ts';

/** Mostly texts that look like svc's. */
const text = fc.oneof(
  fc
    .tuple(
      fc.constantFrom('', '\\', '\\\\', ' '),
      fc.constantFrom('ENC(', 'HASH(', 'enc(', 'EN', 'HASH'),
      fc.string(),
    )
    .map((parts) => parts.join('')),
  fc.string({ unit: 'binary' }),
);

describe('the own text of an application', () => {
  it('that looks like a ciphertext or hash goes out with one more backslash in front', () => {
    const cases: Readonly<Record<string, string>> = {
      'ENC(x)': '\\ENC(x)',
      'ENC(x': '\\ENC(x',
      'HASH(x)': '\\HASH(x)',
      '\\ENC(x)': '\\\\ENC(x)',
      '\\\\HASH(': '\\\\\\HASH(',
    };
    for (const [given, sent] of Object.entries(cases)) {
      assert.equal(ownText.mark(given), sent);
      assert.equal(ownText.unmark(sent), given);
    }
  });

  it('is left alone otherwise', () => {
    for (const given of [
      '',
      'E',
      'ENC',
      'ENC (x)',
      'enc(x)',
      ' ENC(x)',
      '\\',
      '\\x',
      'HASHED',
      'Hello',
      '\\\\',
    ])
      for (const change of [ownText.mark, ownText.unmark]) assert.equal(change(given), given);
  });

  it('comes back as it was, whatever it is, and never goes out as a ciphertext', () => {
    fc.assert(
      fc.property(text, (given) => {
        const sent = ownText.mark(given);
        assert.equal(ownText.unmark(sent), given);
        assert.ok(!cipherTexts.isOne(sent) && !sent.startsWith('HASH('));
        assert.deepEqual(JSON.parse(payloadJson({ payload: { given }, sealed: [] })), { given: sent });
      }),
      { numRuns: 2_000 },
    );
  });

  it('is found wherever a payload can hold a text', () => {
    const own = 'ENC(x)';
    const sent = '\\ENC(x)';
    class Order {
      note = own;
      lines = new Map([['a', new Set([own])]]);
    }
    const rawJson = (JSON as { rawJSON?(text: string): unknown }).rawJSON?.('"\\u0045NC(x)"') ?? own;
    const payload = {
      a: own,
      b: { c: [own, [own], { d: own }] },
      boxed: new String(own),
      order: new Order(),
      json: { toJSON: () => own },
      call: Object.assign(() => {}, { toJSON: () => ({ e: own }) }),
      rawJson,
    };
    const published = {
      a: sent,
      b: { c: [sent, [sent], { d: sent }] },
      boxed: sent,
      order: { note: sent, lines: { a: [sent] } },
      json: sent,
      call: { e: sent },
      rawJson: sent,
    };
    // Without a rule, with one elsewhere, with a slow walk, and with one that passes through.
    assert.deepEqual(publishes(payload), published);
    assert.deepEqual(publishes(payload, ['other']), published);
    assert.deepEqual(publishes(payload, ['**.other']), published);
    assert.deepEqual(publishes(payload, ['other=CUSTOM:HASH']), published);
    assert.deepEqual(publishes(payload, [], { detects: true }), published);
    assert.deepEqual(publishes(own), { value: sent });
    assert.deepEqual(publishes([own]), { value: [sent] });
    assert.equal(payload.a, own);
  });

  it('is found in what a masker returns', () => {
    registerMasker('looks-like-ours', () => 'ENC(AAAA)');
    const rule = { path: 'a', masker: 'looks-like-ours' };
    assert.deepEqual(publishes({ a: 'secret' }, [rule]), { a: '\\ENC(AAAA)' });
  });

  it('is protected as it is where a rule holds', () => {
    const { a, b } = publishes({ a: 'ENC(x)', b: 'ENC(x)' }, ['a=CUSTOM:HASH', 'b=CUSTOM:ENCRYPT']) as {
      a: string;
      b: string;
    };
    assert.match(a, /^HASH\(/);
    assert.match(b, /^ENC\((?!x\))/);
  });

  it('is told from the ciphertexts and hashes beside it, wherever they stand', () => {
    const rules = ['**.hidden=CUSTOM:HASH', '**.sealed=CUSTOM:ENCRYPT'];
    const { hidden: hash } = publishes({ hidden: 'a' }, rules) as { hidden: string };
    const own = fc.oneof(
      text,
      fc.constantFrom('ENC(x)', 'HASH(x)', hash, `\\${hash}`, `${hash}x`, `"${hash}`),
    );
    const name = fc.oneof(
      fc.constantFrom('a', 'b', 'ENC(', '2', '1'),
      // After a name `\`, JSON.parse of V8 13.6 (Node 24) takes the name `"` for it.
      fc.string().filter((each) => !each.includes('\\')),
    );
    const part = fc
      .dictionary(name, own)
      .chain((others) =>
        fc.constantFrom(
          { ...others, hidden: 'a' },
          { sealed: 'a', ...others },
          { ...others, sealed: 'b', later: others, hidden: 'a' },
          others,
        ),
      );
    const check = (given: unknown, sent: unknown, key?: string): void => {
      if (key === 'hidden') assert.equal(sent, hash);
      else if (key === 'sealed') assert.ok(cipherTexts.isOne(sent as string));
      // What is the same as a hash beside it may pass for it.
      else if (typeof given === 'string')
        assert.ok(sent === ownText.mark(given) || (given === hash && sent === hash));
      else for (const inner of Object.keys(given as object)) check(at(given, inner), at(sent, inner), inner);
    };
    fc.assert(
      fc.property(fc.array(part), (parts) => check(parts, at(publishes({ parts }, rules), 'parts'))),
      { numRuns: 500 },
    );
  });
});

function at(object: unknown, key: string): unknown {
  return Object.hasOwn(object as object, key) ? (object as Record<string, unknown>)[key] : undefined;
}
