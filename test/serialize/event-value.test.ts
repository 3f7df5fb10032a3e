import assert from 'node:assert/strict';
import fc from 'fast-check';
import { EventValue, jsonForm } from '../../src/serialize/serializer.ts';

const publishedAt = '2026-01-02T00:00:00.000Z';
const binaryForm = { ...jsonForm, encoding: 'latin1' as const };

function bytesOf(value: EventValue): Buffer {
  const bytes = Buffer.alloc(value.length + publishedAt.length);
  assert.equal(value.write(bytes, 0, publishedAt), bytes.length);
  return bytes;
}

describe('EventValue', () => {
  // Lengths around what is shared, what is not, and the end of a shared piece.
  const length = fc.oneof(fc.nat(40), fc.nat(3_000), fc.integer({ min: 4_000, max: 4_200 }), fc.nat(20_000));
  const letters = fc.constantFrom('a', 'é', '漢', '😀', '\ud800', '\udc00', '\u0000');
  const text = fc.tuple(length, letters, fc.string({ unit: 'binary' })).map(([count, letter, rest]) => {
    const repeated = letter.repeat(Math.ceil(count / letter.length));
    return rest + repeated;
  });
  const binary = fc
    .uint8Array({ maxLength: 6_000, size: 'max' })
    .map((bytes) => Buffer.from(bytes).toString('latin1'));

  it('keeps the bytes of its texts, whatever others are made after it', () => {
    const one = fc.oneof(
      fc.record({ form: fc.constant(jsonForm), before: text, after: fc.array(text, { maxLength: 3 }) }),
      fc.record({ form: fc.constant(binaryForm), before: binary, after: fc.array(binary, { maxLength: 2 }) }),
    );
    fc.assert(
      fc.property(fc.array(one, { minLength: 1, maxLength: 30 }), (all) => {
        const values = all.map(({ form, before, after }) => new EventValue(form, before, after));
        for (const [index, { form, before, after }] of all.entries()) {
          const texts = [before, publishedAt, ...after];
          const expected = Buffer.concat(texts.map((piece) => Buffer.from(piece, form.encoding)));
          assert.equal(bytesOf(values[index] as EventValue).compare(expected), 0);
        }
      }),
      // What is long takes long to be made shorter.
      { numRuns: 150, endOnFailure: true },
    );
  });

  it('keeps each byte up to the last one of a shared piece', () => {
    const values = Array.from({ length: 20_000 }, () => new EventValue(binaryForm, 'a', []));
    assert.equal(values.filter(({ length }) => length !== 1).length, 0);
  });

  it('fits where exactly as much is left as it takes', () => {
    for (const characters of [1_000, 1_365, 1_366, 4_095, 4_096, 4_097])
      for (const letter of ['a', 'é', '漢']) {
        const pieces = Array.from(
          { length: 60 },
          (_, index) => String(index % 10) + letter.repeat(characters - 1),
        );
        const values = pieces.map((piece) => new EventValue(jsonForm, piece, []));
        for (const [index, piece] of pieces.entries())
          assert.equal(bytesOf(values[index] as EventValue).toString(), piece + publishedAt);
      }
  });

  it('is whole where the piece ends within its last character', () => {
    for (const letter of ['a', 'é', '漢', '😀'])
      for (let size = 2_040; size < 2_056; size++) {
        // Eight of 2,048 bytes fill a piece.
        const letters = letter.repeat(20);
        const text = 'x'.repeat(size - publishedAt.length - Buffer.byteLength(letters)) + letters;
        const values = Array.from({ length: 20 }, () => new EventValue(jsonForm, '', [text]));
        for (const value of values) assert.equal(bytesOf(value).toString(), publishedAt + text);
      }
  });

  it('takes a time of another length', () => {
    const bytes = Buffer.alloc(7 + 3);
    assert.equal(new EventValue(jsonForm, 'é-', ['-', 'b-', '']).write(bytes, 0, 'now'), 9);
    assert.equal(bytes.toString('utf8', 0, 9), 'é-now-b-');
  });

  it('writes nothing but its bytes', () => {
    const around = Buffer.alloc(60, '~');
    const end = new EventValue(jsonForm, 'before"', ['"after', '!']).write(around, 3, publishedAt);
    assert.equal(around.toString(), `~~~before"${publishedAt}"after!`.padEnd(60, '~'));
    assert.equal(end, 3 + 7 + 24 + 7);
  });
});
