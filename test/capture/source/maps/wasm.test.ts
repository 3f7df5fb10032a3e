import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { encode, type SourceMapMappings } from '@jridgewell/sourcemap-codec';
import fc from 'fast-check';
import { made, renderWasm } from '../../../../scripts/wasm.ts';
import { sourcesAt } from '../../../../src/capture/source/source-map.ts';

describe('what reads the mappings of a source map', () => {
  it('is made of scripts/segments.wat: npm run docs makes it anew', async () => {
    assert.equal(readFileSync(made, 'utf8'), await renderWasm());
  });

  it('finds the segments of one source that another library wrote, and no others', () => {
    const number = fc.oneof(fc.nat(40), fc.nat(2 ** 29));
    const segment = fc.oneof(
      fc.tuple(fc.nat(99)),
      fc.tuple(fc.nat(99), fc.nat(2), number, number),
      fc.tuple(fc.nat(99), fc.nat(2), number, number, number),
    );
    const lines = fc.array(fc.array(segment, { maxLength: 20 }), { minLength: 1, maxLength: 9 });
    fc.assert(
      fc.property(lines, (lines) => {
        const sorted = lines.map((line) => line.sort(([a], [b]) => a - b));
        const mappings = Buffer.from(encode(sorted as SourceMapMappings));
        const map = {
          sources: ['a.ts', 'b.ts', 'c.ts'],
          sourceRoot: '',
          mappings,
          content: () => '',
          names: () => [],
        };
        const text = `${' '.repeat(99)}\n`.repeat(9);
        const read = { folder: '/', parts: [{ line: 0, column: 0, map }] };
        assert.deepEqual(
          sourcesAt(read, '/b.ts', [], text)[0]?.mappings(),
          sorted.flatMap((line, index) =>
            line.flatMap(([at, source, line, column, name = -1]) =>
              source === 1 ? [{ at: index * 100 + at, line, column, name }] : [],
            ),
          ),
        );
      }),
    );
  });
});
