import assert from 'node:assert/strict';
import { runtimeTargets } from '../../../src/capture/source/capture-runtime.ts';
import { insert, isMarked } from '../../../src/capture/source/insert-calls.ts';
import { findAll, rewrite, type SourceTarget } from '../../../src/capture/source/rewrite-text.ts';
import { captured } from './run-text.ts';

const accept = { found: () => true, problem: (_: string, reason: string) => assert.fail(reason) };

function inserted(text: string, ...paths: string[]): string {
  const targets: SourceTarget[] = paths.map((functionPath) => ({ id: functionPath, functionPath }));
  return rewrite('/app/a.mjs', text, { goal: 'unknown', typed: false }, targets, accept);
}

describe('capture: inserting into a text', () => {
  const call = 'globalThis[Symbol.for("svc.capture")]?.fn';

  it('puts statements behind directives, with a semicolon where there was none', () => {
    assert.equal(
      inserted('"use client"\n"use strict"\nfunction f(a) {}', 'f'),
      `"use client"\n"use strict";f=${call}(f,"f",["a"])??f;\nfunction f(a) {}`,
    );
  });

  it('puts statements behind a #! line, whatever ends it', () => {
    for (const end of ['\n', '\r\n']) {
      const text = inserted(`#!/usr/bin/env node${end}function f() {}`, 'f');
      assert.equal(text, `#!/usr/bin/env node${end};f=${call}(f,"f",[])??f;function f() {}`);
    }
  });

  it('puts statements behind a byte order mark', () => {
    assert.ok(inserted('\uFEFFfunction f() {}', 'f').startsWith('\uFEFF;f='));
  });

  it('counts characters, not bytes', () => {
    assert.equal(
      inserted('const é = "😀😀"; const f = () => "ü";', 'f'),
      `const é = "😀😀"; const f = ((${call}??((v)=>v))(() => "ü","f",[],"f"));`,
    );
  });

  it('adds a semicolon where a statement relied on an automatic one', () => {
    assert.ok(inserted('const f = () => {}\n(1)', 'f').endsWith('"f"));\n(1)'));
    assert.ok(inserted('const f = () => {};\n(1)', 'f').endsWith('"f"));\n(1)'));
    assert.ok(inserted('for (let f = () => {}; ; ) break', 'f').endsWith('"f")); ; ) break'));
  });

  it('takes several targets of one file', async () => {
    const text = 'function a() {}\nconst b = () => a();\nclass C{m(){}n(){}}\nexport { a, b, C };';
    const changed = inserted(text, 'a', 'b', 'C.prototype.m', 'C.prototype.n');
    assert.equal(changed.match(/svc\.capture/g)?.length, 4);
    assert.equal(changed.split('\n').length, 4);
  });

  it('takes two targets that have the same function', () => {
    assert.equal(
      inserted('const f = (a) => a\nexport { f as g }', 'f', 'g'),
      `const f = ((${call}??((v)=>v))(((${call}??((v)=>v))((a) => a,"f",["a"],"f")),"g",["a"],"f"));\nexport { f as g }`,
    );
    const nameless = inserted('export default function () {}', 'default', 'default');
    assert.equal(nameless.match(/function __svcDefault/g)?.length, 1);
  });

  it('nests targets around and inside of one object', async () => {
    const text = 'export const repo = { save: function save(x) {}, find: (y) => y };';
    const changed = inserted(text, 'repo.find', 'save', 'repo.save');
    const find = findAll(
      '/a.mjs',
      changed,
      { goal: 'module', typed: false },
      [{ id: 'x', functionPath: 'repo' }],
      {
        found: () => true,
        problem() {},
      },
    );
    assert.equal(find.length, 1, 'it can still be parsed');
    assert.equal(changed.match(/svc\.capture/g)?.length, 3);
  });

  it('leaves a text alone that holds the marker, in whatever quotes', () => {
    const once = inserted('function f() {}', 'f');
    assert.equal(inserted(once, 'f'), once);
    assert.ok(isMarked("globalThis[Symbol.for('svc.capture')]"));
    assert.ok(!isMarked('// svc.capture'));
  });

  it('leaves the text alone when the function is not wanted', () => {
    const text = 'function f() {}';
    const refuse = { found: () => false, problem() {} };
    assert.equal(
      rewrite('/a.js', text, { goal: 'unknown', typed: false }, [{ id: 'f', functionPath: 'f' }], refuse),
      text,
    );
  });

  it('insert without insertions gives the text back', () => {
    assert.equal(insert('a', []), 'a');
  });

  it('where nothing is captured at run time, the text means what it meant', async () => {
    const text =
      'export function a() { return 1; } export const b = () => 2; export class C { m() { return 3; } } export const o = { p: () => 4 };';
    for (const path of ['a', 'b', 'C.prototype.m', 'o.p']) {
      const it = captured(text, path, 'esm');
      runtimeTargets().clear();
      const m = await it.run();
      assert.deepEqual([m.a(), m.b(), new m.C().m(), m.o.p()], [1, 2, 3, 4]);
      assert.equal(it.calls.length, 0);
    }
  });
});
