import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { finder, findPaths } from '../../../src/capture/source/find.ts';
import { parse } from '../../../src/capture/source/parse-text.ts';

const program = fileURLToPath(new URL('./fixtures/nested-texts.ts', import.meta.url));

/** What svc says of each nested text, in a process that it must not end. */
function told(levels: number, where: 'main' | 'worker', flags: readonly string[] = []): string[] {
  const { signal, status, stdout, stderr } = spawnSync(
    process.execPath,
    ['--no-warnings', ...flags, program, String(levels), where],
    { encoding: 'utf8', timeout: 110_000 },
  );
  assert.deepEqual({ signal, status }, { signal: null, status: 0 }, stderr);
  return stdout.trim().split('\n');
}

describe('capture: a text that is nested deeply', function () {
  this.timeout(120_000);

  for (const [levels, where, flags] of [
    [50, 'main', []],
    // The parser is an ES module, which `require` does not load then: a thread does.
    [50, 'main', ['--no-experimental-require-module']],
    [700, 'main', []],
    [4_000, 'main', []],
    [4_000, 'worker', []],
    [4_000, 'main', ['--stack-size=4000']],
    [12_000, 'worker', []],
  ] as const)
    it(`is read to the target in it: ${levels} levels, ${where} ${flags.join(' ')}`.trim(), () => {
      const lines = told(levels, where, flags);
      assert.equal(lines.length, 66);
      assert.deepEqual(
        lines.filter((line) => !line.endsWith(': found')),
        [],
      );
    });

  it('is not parsed where no thread is given so much stack, and that is said', () => {
    const text = `export const create = ${'('.repeat(400_000)}create${')'.repeat(400_000)};`;
    const found = findPaths('a.js', text, { goal: 'module', typed: false }, ['create']);
    assert.match(
      'problem' in found ? found.problem : '',
      /^nested too deeply to be parsed: it may need 1\d{3} MB/,
    );
  });
});

describe('capture: a long text', () => {
  const filler = (count: number): string =>
    Array.from(
      { length: count },
      (_, n) =>
        `function pad${n}(list, { first = [${n}], ...rest } = {}) { const r = /[)\\]}"]/g; if (r.test(\`\${list}}\`)) { return { ...rest, first }; } for (const each of list) { each.create(n / 2, "}"); } }\n`,
    ).join('');
  const kind = { goal: 'module', typed: false } as const;
  const definition = `
function makeOrders(store) { const orders = { async insert(order, by) { return store.put(order, by); }, close() { return store.close(); } }; return orders; }
class Orders { static #count = 0; constructor(store) { this.find = async (id, options) => { const all = await store.all(); return all.get(id); }; }
  async create({ id, customer, lines }, at = Date.now()) { return { id, customer, lines, at }; } }
const wrapped = { inner: { async save(order, reason) { return { order, reason, saved: true }; } } };
async function local(orderedBy, shippedTo = 'the address of the customer', { ...others } = {}) { return others; }
export { local as renamed, makeOrders, Orders, wrapped };
`;
  const paths = [
    'makeOrders().insert',
    'Orders.prototype.create',
    'Orders.prototype.find',
    'wrapped.inner.save',
    'renamed',
    'local',
    'pad3',
    'pad9999',
    'Orders.prototype.crate',
    'makeOrders().insret',
  ];
  const plain = (found: ReturnType<typeof findPaths>) =>
    'problem' in found
      ? found
      : found.found.map((each) =>
          'problem' in each
            ? each
            : { place: each.place, names: each.parameterNames, defaulted: each.defaulted },
        );

  it('has the same answers as all of its text has', () => {
    const text = filler(100) + definition + filler(100);
    assert.ok(text.length > 16_384);
    const parsed = parse('a.js', text, kind);
    assert.ok('program' in parsed);
    const find = finder(parsed.program, text);
    const found = paths.map((each) => find(each));
    const whole = { program: parsed.program, found, end: parsed.program.body.at(-1)?.end };
    assert.deepEqual(plain(findPaths('a.js', text, kind, paths)), plain(whole));
  });

  it('is parsed around what is wanted: of other functions nothing is read', () => {
    const text = filler(3_000) + definition;
    const parsed = parse('a.js', text, kind, { names: ['makeOrders'] });
    assert.ok('program' in parsed && !parsed.isWhole);
    assert.equal(parsed.text.length, text.length);
    assert.ok(parsed.text.replace(/\s+/g, ' ').length < 2_000);
  });

  it('is not parsed where too much of it would have to be read', () => {
    const text = `const create = "${'x'.repeat(33 * 1024 * 1024)}";`;
    const found = findPaths('a.js', text, kind, ['create']);
    assert.match('problem' in found ? found.problem : '', /^too much to parse: .* svc reads 32 MB at most/);
  });

  it('tells its mistake where what is left has one', () => {
    const found = findPaths('a.js', `${filler(100)}\nconst = create;`, kind, ['create']);
    assert.match('problem' in found ? found.problem : '', /^cannot be parsed: .*\(line 102\)/);
  });

  it('is parsed whole where its brackets do not mean what they seem to', () => {
    const found = findPaths(
      'a.js',
      `${filler(100)}class A { static [\`\${1}\`.length + "a text that is long enough"] = 2; }${definition}`,
      kind,
      ['Orders.prototype.create'],
    );
    assert.ok('found' in found && found.found.every((each) => !('problem' in each)));
  });
});
