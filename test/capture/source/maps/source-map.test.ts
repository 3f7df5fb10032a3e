import assert from 'node:assert/strict';
import fc from 'fast-check';
import { readMap } from '../../../../src/capture/source/source-map.ts';

/** As tools write JSON: esbuild, a compact one, by lines, Windows, Python, with slashes escaped. */
const styles: Record<string, (map: object) => string> = {
  esbuild: (map) =>
    `{\n${Object.entries(map)
      .map(
        ([key, value]) =>
          `  "${key}": ${Array.isArray(value) ? `[${value.map((each) => JSON.stringify(each)).join(', ')}]` : JSON.stringify(value)}`,
      )
      .join(',\n')}\n}\n`,
  compact: (map) => JSON.stringify(map),
  'by lines': (map) => JSON.stringify(map, undefined, 2),
  'of Windows': (map) => JSON.stringify(map, undefined, 2).replaceAll('\n', '\r\n'),
  Python: (map) => JSON.stringify(map, undefined, 1).replaceAll(/\n */g, ' '),
  'with slashes escaped': (map) => JSON.stringify(map).replaceAll('/', '\\/'),
};

/** What looks like the end of a text, of a list or a key. */
const tricky = fc.oneof(
  fc.string(),
  fc.constantFrom(
    ',',
    '],',
    '],"names":',
    '"],"names":["x"]',
    '\\',
    '\\"',
    '",',
    'a",',
    'null],',
    '\n],\n"x": ',
    '🌍',
  ),
  fc
    .array(fc.constantFrom('"', ',', ' ', ']', '[', '\\', ':', 'names', 'null', '}', '\n', 'é'), {
      maxLength: 60,
    })
    .map((parts) => parts.join('')),
);
const maps = fc
  .record({
    texts: fc.array(
      fc.option(
        tricky.filter((text) => text.trim() !== ','),
        { freq: 8 },
      ),
      { minLength: 1, maxLength: 6 },
    ),
    sources: fc.array(fc.option(tricky, { freq: 12 }), { minLength: 6, maxLength: 6 }),
    names: fc.array(tricky, { maxLength: 6 }),
    mappings: fc.constantFrom('', 'AAAA,CAAC', 'AAAA/B;;AACA+/8B'),
    order: fc.shuffledSubarray(
      ['version', 'sources', 'sourcesContent', 'names', 'mappings', 'sourceRoot', 'file'],
      {
        minLength: 7,
      },
    ),
  })
  .map(({ texts, sources, names, mappings, order }) => {
    const map: Record<string, unknown> = {
      ...{ version: 3, sources: sources.slice(0, texts.length), sourcesContent: texts },
      ...{ names, mappings, sourceRoot: '/src', file: 'a.js' },
    };
    return Object.fromEntries(order.map((key) => [key, map[key]])) as unknown as Plain;
  });

interface Plain {
  readonly sources: readonly string[];
  readonly sourcesContent: readonly (string | null)[];
  readonly names: readonly string[];
  readonly mappings: string;
  readonly sourceRoot: string;
}

/** The only part of the map that a text holds. */
function readInline(json: string) {
  const text = `//# sourceMappingURL=data:application/json;base64,${Buffer.from(json).toString('base64')}`;
  const read = readMap('/app/a.js', text, ['']);
  assert.ok(read !== undefined && 'parts' in read, JSON.stringify(read));
  const [part, ...more] = read.parts;
  assert.ok(part !== undefined);
  assert.deepEqual([read.folder, part.line, part.column, more], ['/app', 0, 0, []]);
  return part.map;
}

function assertSame(read: ReturnType<typeof readInline>, map: Plain): void {
  assert.deepEqual(read.sources, map.sources);
  assert.deepEqual(
    map.sources.map((_, index) => read.content(index)),
    map.sourcesContent.map((each) => each ?? undefined),
  );
  assert.deepEqual(read.names(), map.names);
  assert.equal(String(read.mappings), map.mappings);
  assert.equal(read.sourceRoot, map.sourceRoot);
}

describe('a source map, read in its bytes', () => {
  for (const [title, write] of Object.entries(styles))
    it(`says what JSON.parse says of one written ${title}`, () => {
      fc.assert(
        fc.property(maps, (map) => {
          assertSame(readInline(write(map)), map);
        }),
        { numRuns: 500 },
      );
    });
});
