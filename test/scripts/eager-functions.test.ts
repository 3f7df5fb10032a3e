import assert from 'node:assert/strict';
import { Script } from 'node:vm';
import { parseSync, type Span, Visitor } from 'oxc-parser';
import { rangeOf, withEager } from '../../scripts/eager-functions.ts';

describe('functions that the build has compiled with their file', () => {
  const text = `'use strict';
    const early = later(1);
    function later(n) { 'use strict'; return half(n) + deep(n); function half(m) { return m / 2; } }
    function deep(n) { const list = []; for (const i of [n]) { add(i); function add(x) { list.push(() => x); } } return list[0](); }
    const arrow = (n) => n + 1, named = function own(n) { return n === 0 ? 0 : own(n - 1); };
    async function* numbers() { yield 1; }
    const object = { plain: function () { return 1; }, method(n) { return later(n); }, get got() { return 2; }, async *all() {} };
    class Point { constructor(x) { this.x = x; } double() { return this.x * 2; } static of = (x) => new Point(x); }
    [early, later(4), deep(5), arrow(1), named(3), numbers.constructor.name, later.name, object.plain.name, arrow.name, object.plain(),
      object.method(2), object.got, Point.of(3).double()].join();`;

  it('are the same functions, known where they were known before', () => {
    const all = new Set<string>();
    const add = (node: Span) => void all.add(rangeOf(node));
    new Visitor({
      FunctionDeclaration: add,
      FunctionExpression: add,
      ArrowFunctionExpression: add,
    }).visit(parseSync('text.cjs', text, { sourceType: 'commonjs' }).program);

    const eager = withEager('text.cjs', text, all);

    assert.equal(new Script(eager).runInNewContext(), new Script(text).runInNewContext());
    for (const form of ['var later = (function later(', 'var half = (', 'const add = (', '= ((n) => n + 1)'])
      assert.ok(eager.includes(form), form);
    assert.match(eager, /method\(n\) \{ return later\(n\); \}, get got\(\)/);
    assert.match(eager, /^'use strict';\s*var/);
  });

  it('are those that are named, and no others', () => {
    assert.equal(withEager('text.cjs', text, new Set()), text);
  });
});
