import assert from 'node:assert/strict';
import fc from 'fast-check';
import { parseBounded } from '../../src/ground/bounds.ts';

const maxValues = 1_000_000;
const maxDepth = 128;

const nested = (levels: number): string => '['.repeat(levels) + ']'.repeat(levels);
const wide = (values: number): string => `[${Array(values).fill('0').join(',')}]`;

describe('JSON of others', () => {
  it('is what JSON.parse makes of it, and nothing where that throws', () => {
    fc.assert(
      fc.property(fc.oneof(fc.array(fc.jsonValue()), fc.dictionary(fc.string(), fc.jsonValue())), (value) => {
        const text = JSON.stringify(value, null, 1);
        assert.deepEqual(parseBounded(text), JSON.parse(text));
        assert.equal(parseBounded(text.slice(0, -1)), undefined);
      }),
    );
    for (const text of ['', '"x"', '7', '{"a":"\\"}', '[1]]', '[1,]', '{"a" "b"}', '\u0000'])
      assert.equal(parseBounded(text), undefined, text);
    assert.deepEqual(parseBounded(' \r\n\t{"[[[[":"]]]\\\\"}'), { '[[[[': ']]]\\' });
  });

  it('is taken up to a depth and a number of values', () => {
    assert.ok(Array.isArray(parseBounded(nested(maxDepth))));
    assert.equal(parseBounded(nested(maxDepth + 1)), undefined);
    // Those in texts count for nothing, however many.
    const text = '[{'.repeat(maxDepth);
    assert.deepEqual(parseBounded(JSON.stringify({ text })), { text });
    // The list is one of them.
    assert.ok(Array.isArray(parseBounded(wide(maxValues - 1))));
    assert.equal(parseBounded(wide(maxValues)), undefined);
  });

  it('of depth and width costs little where it is refused', function () {
    this.timeout(10_000);
    for (const piece of ['[', '{"a":', '""', '"" ', '],', '{},', '\\"', ' ', '\u0000', '"\\\\']) {
      const sinceMs = performance.now();
      assert.equal(parseBounded(`{"a":${piece.repeat(12_000_000 / piece.length)}`), undefined, piece);
      assert.ok(performance.now() - sinceMs < 3_000, `${piece} took ${performance.now() - sinceMs} ms`);
    }
  });
});
