import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { EventEmitter } from 'node:events';
import { Readable } from 'node:stream';
import { type ExpressionScope, parseExpression } from '../../../src/capture/expression/compile.ts';
import { SvcError } from '../../../src/errors.ts';
import { assertUnpolluted, attack } from './hostile-call.ts';

describe('attacks on an expression', () => {
  afterEach('nothing was added to a prototype', assertUnpolluted);

  const denied = [
    'result.constructor',
    'result["constructor"]',
    "result['con' + 'structor']",
    "result['con' + 'structor']['con' + 'structor']('return process')()",
    'result.constructor.constructor("return process")()',
    'result.__proto__',
    "result['__pro' + 'to__']",
    "result?.['__pro' + 'to__']",
    "text['constructor']",
    "''['con' + 'structor']",
    "{:}['con' + 'structor']",
    "args['con' + 'structor']",
    "(1)['con' + 'structor']",
    "result[{'constructor'}]",
    "result[{'constructor'}[0]]",
    "{'constructor'}.![#result[#this]]",
    '{"__proto__": {polluted: true}}',
    '{__proto__: {polluted: true}}',
    '{constructor: 1}',
    'result.toDto.call',
    'result.toDto',
    'result.drop',
    'result.drop()',
    'result.list.push(1)',
    'result.list.map(result)',
    'result.list.toString()',
    'result.list.join(result)',
    'result.list.join()',
    'result.hasOwnProperty("a")',
    'result.isPrototypeOf(result)',
    'result.toLocaleString()',
    'result.toString()',
    'result.getClass()',
    'result.getClass().toString()',
    'result.bad',
    "result['bad']",
    'result.getBad()',
    'result.getLater()',
    '{a: result.getLater()}',
    'self',
    'self.name',
    'this.prototype',
    'type',
    'type.name',
    'args[3].name',
    'args.![this]',
    'symbol',
    'result[symbol]',
    'spiteful.x',
    'spiteful',
    'revoked.x',
    'revoked[0]',
    'revoked.![x]',
    'revoked == spiteful.x',
    'text.replace("a", "b")',
    'text.repeat(1e9)',
    'text.padEnd(1e9)',
    'text.match("(a+)+")',
    'text.split(result)',
    'T(Object)',
    'new Object()',
    '@bean.run()',
    'result.email = 1',
    'result.count++',
    'import("node:fs")',
    'require("fs")',
    'process.exit(1)',
    'globalThis.process',
    '(() => 1)()',
    'function () {}',
    'result.email; 1',
  ];
  for (const text of denied) {
    it(`${text} is denied`, () => {
      const { error, value } = attack(text);
      assert.ok(error instanceof SvcError, `it gave a ${typeof value}`);
    });
  }

  it('methods of built-in classes are denied on the objects that inherit them', () => {
    class Bus extends EventEmitter {}
    class Feed extends Readable {}
    class Parcel extends Map {
      toDto(): string {
        return 'own';
      }
    }
    const results: readonly (readonly [string, unknown])[] = [
      ['result.getMaxListeners()', new Bus()],
      ['result.toArray()', new Feed()],
      ['result.isPaused()', new Feed()],
      ['result.toString()', Buffer.from('x')],
      ['result.toJSON()', Buffer.from('x')],
      ['result.toString()', new Error('x')],
      ['result.toString()', /x/u],
      ['result.toArray()', [1].values()],
      ['result.getPrototypeOf(result)', Reflect],
      ['result.getBuiltinModule("fs")', process],
      ['result.toLocaleString()', new Date(0)],
    ];
    for (const [text, result] of results) {
      const bound = parseExpression(text).bind([]);
      assert.throws(() => bound({ args: [], result, self: null }), { code: 'SVC_CAPTURE_EXPRESSION' }, text);
    }
    assert.equal(
      parseExpression('result.toDto()').bind([])({ args: [], result: new Parcel(), self: null }),
      'own',
    );
  });

  it('a function that was allowed at one place is not a ticket for a built-in one', () => {
    const bound = parseExpression('result.toString()').bind([]);
    const scope = (result: unknown): ExpressionScope => ({ args: [], result, self: null });
    assert.equal(bound(scope({ toString: () => 'own' })), 'own');
    assert.throws(() => bound(scope({})), { code: 'SVC_CAPTURE_EXPRESSION' });
  });

  it('a setter that somebody put on Object.prototype does not run for the key of a map', () => {
    let ran = false;
    Object.defineProperty(Object.prototype, 'trap', {
      configurable: true,
      set() {
        ran = true;
      },
    });
    try {
      assert.deepEqual(Object.keys(attack('{trap: 1}').value as object), ['trap']);
      assert.equal(ran, false);
    } finally {
      Reflect.deleteProperty(Object.prototype, 'trap');
    }
  });

  it('projections cannot multiply without end', () => {
    const doubling = `{'${'x'.repeat(100)}'}${'.![this + this]'.repeat(30)}`;
    assert.ok(attack(doubling).error instanceof SvcError);
    assert.ok(attack('{{1},{1}}.![{this,this}].![{this,this}].join()').error instanceof SvcError);
  });

  it('needs no code generation from strings', () => {
    const module = new URL('../../../src/capture/expression/compile.ts', import.meta.url);
    const script = `
      import { parseExpression } from ${JSON.stringify(module.href)};
      try { eval('1'); process.exit(9); } catch {}
      console.log(parseExpression('{a: result.id + 1}').bind([])({ args: [], result: { id: 1 } }).a);`;
    const flags = [
      '--disallow-code-generation-from-strings',
      '--no-warnings',
      '--input-type=module',
      '-e',
      script,
    ];
    const { stdout, status } = spawnSync(process.execPath, flags, { encoding: 'utf8' });
    assert.deepEqual({ stdout, status }, { stdout: '2\n', status: 0 });
  });
});
