import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { EventEmitter } from 'node:events';
import { Readable } from 'node:stream';
import type { ExpressionScope } from '../../../src/capture/call.ts';
import { compileSelectors, parseExpression } from '../../../src/capture/expression/compile.ts';
import { maxBigIntBits } from '../../../src/ground/bounds.ts';
import { SvcError } from '../../../src/ground/errors.ts';
import { fakeTime } from '../../support/fake-time.ts';
import { assertUnpolluted, attack } from './hostile-call.ts';

const maxEvaluationMs = 1_000;
const maxListLength = 10_000_000;
const maxMadeLength = 1_048_576;

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

  describe('cannot keep the process busy', () => {
    const evaluate = (text: string, ...args: unknown[]) =>
      parseExpression(text).bind(undefined)({ args, result: args[0] } as unknown as ExpressionScope);
    const fails = (text: string, ...args: unknown[]) =>
      assert.throws(() => evaluate(text, ...args), { code: 'SVC_CAPTURE_EXPRESSION' });
    const first = 1n << BigInt(maxBigIntBits);

    it('with numbers of many digits', () => {
      const largest = first - 1n;
      assert.equal(evaluate('#p0 + #p1', largest - 1n, 1n), largest);
      assert.equal(evaluate("'' + #p0", -largest), String(-largest));
      assert.equal(evaluate('#p0.toString()', largest), String(largest));
      assert.equal(evaluate('#args.join()', largest), String(largest));
      fails('#p0 + #p1', largest, 1n);
      fails('-#p0 - #p1', largest, 1n);
      for (const operator of ['+', '-', '*', '/', '%']) {
        fails(`#p0 ${operator} #p1`, first, 1n);
        fails(`#p1 ${operator} #p0`, -first, 1n);
      }
      for (const text of ["'' + #p0", '#p0.toString()', '#args.join()', '#args.![#this*#this]'])
        fails(text, first);
      fails('#p0.![#this*#this].![#this*#this]', [1n << BigInt(maxBigIntBits / 2)]);
      for (const large of [first, -first]) {
        const { key } = compileSelectors({ key: '#p0' }, undefined);
        assert.throws(() => key?.({ args: [large] } as unknown as ExpressionScope), {
          code: 'SVC_CAPTURE_EXPRESSION',
        });
      }
    });

    it('with long lists and texts', () => {
      const longest = new Array(maxListLength);
      longest[maxListLength - 1] = 7;
      assert.equal(evaluate('#p0.indexOf(7)', longest), maxListLength - 1);
      const sparse = new Array(2 ** 32 - 1);
      const tooLong = new Array(maxListLength + 1);
      for (const method of [
        'contains(7)',
        'includes(7)',
        'indexOf(7)',
        'lastIndexOf(7)',
        "join('')",
        'slice(0, 1)',
      ])
        for (const list of [sparse, tooLong]) fails(`#p0.${method}`, list);
      const text = 'x,'.repeat(maxMadeLength);
      assert.equal((evaluate("#p0.split(',')", text.slice(0, -2)) as string[]).length, maxMadeLength);
      fails("#p0.split(',')", text);
      assert.deepEqual(evaluate("#p0.split(',', 2)", text), ['x', 'x']);
      assert.deepEqual(evaluate("#p0.split('')", 'ab'), ['a', 'b']);
    });

    it('with many elements that each take long', () => {
      const clock = fakeTime();
      try {
        const slow = (ms: number) => ({
          getName() {
            clock.tick(ms);
            return 'x';
          },
        });
        const steps = 10;
        const list = (ms: number) => new Array(8 * steps + 8).fill(slow(ms));
        const text = '#p0.![#this.getName()]';
        assert.equal((evaluate(text, list(maxEvaluationMs / 8 / steps)) as string[]).length, 8 * steps + 8);
        fails(text, list(maxEvaluationMs / 8 / steps + 1));
        fails('#p0.?[#this.getName()]', new Set(list(1).map(() => slow(maxEvaluationMs))));
      } finally {
        clock.restore();
      }
    });
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
