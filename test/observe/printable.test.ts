import assert from 'node:assert/strict';
import fc from 'fast-check';
import { printable, printableJson } from '../../src/observe/logger.ts';

const unsafe = /(?!\u200c|\u200d)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;

describe('printable', () => {
  it('shows each control and direction character as its escape, on one line', () => {
    const cases: Readonly<Record<string, string>> = {
      '\u001b[2J\u0007': '\\u001b[2J\\u0007',
      'a\r\nb\tc': 'a\\u000d\\u000ab\\u0009c',
      'a\u007fb\u009b31m': 'a\\u007fb\\u009b31m',
      'exe\u202egpj': 'exe\\u202egpj',
      '\u2066\u2069\u200e\u200f\u061c': '\\u2066\\u2069\\u200e\\u200f\\u061c',
      '\u2028\u2029\ufeff\u200b\u00ad': '\\u2028\\u2029\\ufeff\\u200b\\u00ad',
      'tag \u{e0041}': 'tag \\udb40\\udc41',
    };
    for (const [given, shown] of Object.entries(cases)) assert.equal(printable(given), shown);
  });

  it('leaves what is text, emoji and words with joiners among it', () => {
    for (const text of ['', 'Grüße 👋', '👩‍👩‍👧', 'می‌خواهم', 'שלום', '\\ "quoted"'])
      assert.equal(printable(text), text);
  });

  it('leaves nothing unsafe of any text, and JSON the same value', () => {
    const unit = fc.oneof(
      fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }),
      fc.integer({ min: 0, max: 0xffff }).map((code) => String.fromCharCode(code)),
    );
    fc.assert(
      fc.property(fc.array(unit), fc.constantFrom(undefined, 2), (units, indent) => {
        const text = units.join('');
        assert.doesNotMatch(printable(text), unsafe);
        const json = printableJson({ [text]: [text] }, indent);
        assert.doesNotMatch(json.replaceAll('\n', ''), unsafe);
        assert.deepEqual(JSON.parse(json), JSON.parse(JSON.stringify({ [text]: [text] })));
      }),
      { numRuns: 1_000 },
    );
  });
});
