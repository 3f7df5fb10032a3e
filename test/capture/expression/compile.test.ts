import assert from 'node:assert/strict';
import type { ExpressionScope } from '../../../src/capture/call.ts';
import { parseExpression } from '../../../src/capture/expression/compile.ts';

class Order {
  id = 'o-1';
  total = 12.5;
  big = 10n;
  placed = new Date('2026-03-04T10:00:00.120Z');
  items = [
    { sku: 'a', price: 2 },
    { sku: 'b', price: 30 },
  ];
  stock = new Map([
    ['a', 1],
    ['b', 5],
  ]);
  tags = new Set(['x', 'y']);
  bytes = new Uint8Array([7, 8]);
  nothing = null;
  get label(): string {
    return `order ${this.id}`;
  }
  toDto(): object {
    return { id: this.id, total: this.total };
  }
  getId(): string {
    return this.id;
  }
  isLargerThan(limit: number): boolean {
    return this.total > limit;
  }
  toString(): string {
    return `Order(${this.id})`;
  }
}

const order = new Order();
const call: ExpressionScope = {
  args: [{ email: 'jo@example.com', 'odd name': 1, 0: 'zero' }, 5],
  result: order,
  self: { region: 'eu' },
  error: undefined,
};

function evaluate(text: string, scope: ExpressionScope = call): unknown {
  return parseExpression(text).bind(['customer', 'count'])(scope);
}

function table(rows: readonly (readonly [string, unknown])[]): void {
  for (const [text, expected] of rows) {
    it(text, () => assert.deepEqual(evaluate(text), expected));
  }
}

function failures(rows: readonly (readonly [string, number])[]): void {
  for (const [text, column] of rows) {
    it(`${text} fails at column ${column}`, () => {
      assert.throws(() => evaluate(text), {
        name: 'SvcError',
        code: 'SVC_CAPTURE_EXPRESSION',
        message: new RegExp(`^Expression failed at column ${column}: `, 'u'),
      });
    });
  }
}

describe('parseExpression', () => {
  describe('reads names', () =>
    table([
      ['#result', order],
      ['result', order],
      ['#args[1]', 5],
      ['args', call.args],
      ['#p0.email', 'jo@example.com'],
      ['a1', 5],
      ['#customer.email', 'jo@example.com'],
      ['count', 5],
      ['#self.region', 'eu'],
      ['this.region', 'eu'],
      ['#error', undefined],
      ['  #result\n .id ', 'o-1'],
    ]));

  describe('reads properties and elements', () => {
    table([
      ['result.label', 'order o-1'],
      ['result["id"]', 'o-1'],
      ["#customer['odd name']", 1],
      ['#customer[0]', 'zero'],
      ['result.items[0].sku', 'a'],
      ['result.items[count - 4].sku', 'b'],
      ['result.bytes[1]', 8],
      ["result.stock['b']", 5],
      ["result.stock['c']", undefined],
      ['result.missing', undefined],
      ['result.id.length', 3],
      ['result.id[0]', 'o'],
      ['result.nothing?.deep', null],
      ['result.nothing?.[0]', null],
      ['result.nothing?.getId()', null],
      ['result.nothing?.![id]', null],
      ['result.nothing?.?[id]', null],
      ['result?.id', 'o-1'],
      ['result?.items?.[1]?.sku', 'b'],
      ['result?.items?.![sku]', ['a', 'b']],
    ]);
    failures([
      ['result.nothing.deep', 16],
      ['result.missing.deep', 16],
      // As in SpEL, `?.` covers its own step only.
      ['result.nothing?.deep.deeper', 22],
      ['result.nothing[0]', 15],
      ['result.items[2]', 13],
      ['result.items[-1]', 13],
      ['result.items["0"]', 13],
      ['result.items[0.5 + 0]', 13],
      ['result.id[3]', 10],
      ['args[2]', 5],
      ['p2', 1],
      ['result[null + ""]', 13],
      ['result[args]', 7],
    ]);
  });

  it('gives undefined for a declared parameter that the caller left out', () => {
    const scope = { ...call, args: [] };
    assert.equal(evaluate('count', scope), undefined);
    assert.equal(evaluate('p1', scope), undefined);
    assert.throws(() => evaluate('args[1]', scope), { code: 'SVC_CAPTURE_EXPRESSION' });
    assert.throws(() => parseExpression('p1').bind(undefined)(scope), { code: 'SVC_CAPTURE_EXPRESSION' });
  });

  describe('makes literals, maps and lists', () =>
    table([
      ["'it''s'", "it's"],
      ['"say ""hi"""', 'say "hi"'],
      ["'back\\slash'", 'back\\slash'],
      ["''", ''],
      ['12', 12],
      ['1.5e3', 1500],
      ['9007199254740991', Number.MAX_SAFE_INTEGER],
      ['true', true],
      ['false', false],
      ['null', null],
      ["{id: result.id, 'b c': 2, 3: {x: 1}}", { id: 'o-1', 'b c': 2, 3: { x: 1 } }],
      ['{toString: 1}', Object.defineProperty({}, 'toString', { value: 1, enumerable: true })],
      ['{1, {2, 3}, {:}}', [1, [2, 3], {}]],
      ['true ? {} : 1', []],
    ]));

  it('makes a new object for each call', () => {
    const bound = parseExpression('{a: 1}').bind([]);
    assert.notEqual(bound(call), bound(call));
  });

  describe('compares, combines and calculates', () => {
    table([
      ['1 == 1', true],
      ["1 == '1'", false],
      ['1 != 2', true],
      ['result.big == 10', true],
      ['result.nothing == result.missing', true],
      ['result.nothing == 0', false],
      ['0 == null', false],
      ['result == result', true],
      ['result == this', false],
      ['result.placed == result.placed', true],
      ['result.placed >= result.placed', true],
      ['result.placed < result.placed', false],
      ['result.big > 9.5', true],
      ["'a' < 'b'", true],
      ["'b' le 'b'", true],
      ['2 ge 3', false],
      ['2 eq 2 and 2 ne 3 or 1 gt 2', true],
      ['1 lt 2', true],
      ["null || 'x'", 'x'],
      ['0 && 1', 0],
      ['not true', false],
      ['!result.missing', true],
      ["'' ?: 'x'", 'x'],
      ["0 ?: 'x'", 0],
      ["result.missing ?: 'x'", 'x'],
      ["'' ?? 'x'", ''],
      ["null ?? 'x'", 'x'],
      ['1 + 2 * 3', 7],
      ['(1 + 2) * 3', 9],
      ['10 - 2 - 3', 5],
      ['7 mod 4', 3],
      ['9 div 2', 4.5],
      ['-2 - -3', 1],
      ['result.big * result.big', 100n],
      ['result.big / result.big', 1n],
      ['-result.big', -10n],
      ["'a' + 1 + true", 'a1true'],
      ['1 + 2 + "a"', '3a'],
      ['true ? 1 : true ? 2 : 3', 1],
      ['false ? 1 : false ? 2 : 3', 3],
      ['null ?? false ? 1 : 2', 2],
      ['true || false && false', true],
      ['1 + 1 == 2 && 3 > 2', true],
    ]);
    failures([
      ["1 < 'a'", 3],
      ['null < 1', 6],
      ['result > result', 8],
      ["'a' + null", 5],
      ["'a' + result", 5],
      ["'a' + result.placed", 5],
      ['1 + null', 3],
      ['true + 1', 6],
      ['1 / 0', 3],
      ['1 % 0', 3],
      ['result.big / (result.big - result.big)', 12],
      ['result.big + 1', 12],
      ["-'1'", 1],
      ["'a' - 1", 5],
    ]);
  });

  it('does not evaluate the branch that is not chosen', () => {
    assert.equal(evaluate('true ? 1 : result.x.y'), 1);
    assert.equal(evaluate('true || result.x.y'), true);
    assert.equal(evaluate('1 ?: result.x.y'), 1);
  });

  describe('goes through lists, sets and maps', () => {
    table([
      ['result.items.![sku]', ['a', 'b']],
      ['result.items.![#this.price * 2]', [4, 60]],
      [
        'result.items.![{s: sku, o: #result.id, r: #self.region}]',
        [
          { s: 'a', o: 'o-1', r: 'eu' },
          { s: 'b', o: 'o-1', r: 'eu' },
        ],
      ],
      ['result.items.?[price > #count]', [{ sku: 'b', price: 30 }]],
      ['result.items.?[price > 100]', []],
      ['result.tags.![this + "!"]', ['x!', 'y!']],
      ['result.tags.?[this == "y"]', ['y']],
      ['result.bytes.![this + 1]', [8, 9]],
      ['result.stock.![key + value]', ['a1', 'b5']],
      ['result.stock.?[value > 2]', new Map([['b', 5]])],
      ['{{1, 2}, {3}}.![this.![this * 10]]', [[10, 20], [30]]],
      [
        '{{1, 2}, {3}}.![{n: this.![this].size(), all: this}]',
        [
          { n: 2, all: [1, 2] },
          { n: 1, all: [3] },
        ],
      ],
      ['{}.![x]', []],
    ]);
    failures([
      ['result.![id]', 7],
      ['result.nothing.![id]', 15],
      ["'abc'.![this]", 6],
      ['{1, null}.![x]', 13],
    ]);
  });

  for (const [result, text] of [
    [Number.POSITIVE_INFINITY, "'a' + result"],
    [Number.POSITIVE_INFINITY, "result + 'a'"],
    [Number.NEGATIVE_INFINITY, "'a' + result"],
    [Number.NaN, "'a' + result"],
    [Number.POSITIVE_INFINITY, '-result'],
    [Number.NaN, '-result'],
    [Number.MAX_VALUE, 'result * 2'],
    [Number.POSITIVE_INFINITY, 'result + 1'],
  ] as const)
    it(`${text} fails where the result is ${result}: no text or number is made of it`, () => {
      assert.throws(() => evaluate(text, { ...call, result }), { code: 'SVC_CAPTURE_EXPRESSION' });
    });

  it('takes the largest numbers', () => {
    const scope = { ...call, result: Number.MAX_VALUE };
    assert.equal(evaluate("'a' + result", scope), `a${Number.MAX_VALUE}`);
    assert.equal(evaluate('-result', scope), -Number.MAX_VALUE);
  });

  it('visits 10,000 elements in one evaluation, and not one more', () => {
    const list = (length: number): ExpressionScope => ({
      ...call,
      result: Array.from({ length }, (_, index) => index),
    });
    const once = parseExpression('result.![this]').bind([]);
    assert.equal((once(list(10_000)) as unknown[]).length, 10_000);
    assert.equal((once(list(10_000)) as unknown[]).length, 10_000, 'counted anew for each call');
    assert.throws(() => once(list(10_001)), { code: 'SVC_CAPTURE_EXPRESSION' });
    const nested = parseExpression('result.![#result.?[true]]').bind([]);
    assert.equal((nested(list(99)) as unknown[]).length, 99); // 99 + 99 * 99 = 9,900
    assert.throws(() => nested(list(100)), { code: 'SVC_CAPTURE_EXPRESSION' }); // 10,100
  });

  it('makes strings of 1,048,576 characters, and no longer ones', () => {
    const scope = { ...call, result: 'x'.repeat(1_048_575) };
    assert.equal((evaluate("result + 'y'", scope) as string).length, 1_048_576);
    assert.throws(() => evaluate("result + 'yz'", scope), { code: 'SVC_CAPTURE_EXPRESSION' });
    assert.equal((evaluate("{result, ''}.join('y')", scope) as string).length, 1_048_576);
    assert.throws(() => evaluate("{result, 'z'}.join('y')", scope), { code: 'SVC_CAPTURE_EXPRESSION' });
    assert.equal(evaluate('result', { ...call, result: 'x'.repeat(2_000_000) }), 'x'.repeat(2_000_000));
  });

  describe('calls methods that read', () => {
    table([
      ['result.toDto()', { id: 'o-1', total: 12.5 }],
      ['result != null ? result.toDto() : null', { id: 'o-1', total: 12.5 }],
      ['result.getId()', 'o-1'],
      ['result.isLargerThan(count)', true],
      ['result.toString()', 'Order(o-1)'],
      ['result?.toDto().id', 'o-1'],
      ['result.total.toFixed(2)', '12.50'],
      ['result.big.toString()', '10'],
      ['true.toString()', 'true'],
      ["result.id.split('-')[1]", '1'],
      ["result.id.contains('o')", true],
      ['result.id.length()', 3],
      ["''.isEmpty()", true],
      ['result.placed.toISOString()', '2026-03-04T10:00:00.120Z'],
      ['result.placed.getTime()', 1772618400120],
      ["result.stock.get('b')", 5],
      ["result.stock.containsKey('z')", false],
      ['result.stock.size()', 2],
      ["result.tags.has('x')", true],
      ['result.tags.size', 2],
      ['result.items.get(1).sku', 'b'],
      ['result.items.at(-1).sku', 'b'],
      ['result.items.slice(1).size()', 1],
      ["{'a', 1, null}.join('-')", 'a-1-'],
      ['{1, 2}.contains(2)', true],
      ['{1, 2}.isEmpty()', false],
      ['{1, 2, 1}.lastIndexOf(1)', 2],
    ]);
    failures([
      ['result.getMissing()', 8],
      ['result.nothing.getId()', 16],
      ['result.items.get(2)', 14],
      ["result.items.get('0')", 14],
      ['result.items.join()', 14],
      ['result.total.toFixed(101)', 14],
      ['result.id.split(result)', 11],
      ['result.id.toDto()', 11],
      ['result.slice(1)', 8],
      ['this.toString()', 6],
      ['this.hasOwnProperty("region")', 6],
      ['result.bytes.toString()', 14],
      ['result.items.toSorted()', 14],
    ]);
  });

  it('calls methods with the object as `this` and looks again when another class brings another function', () => {
    const bound = parseExpression('result.getX()').bind([]);
    const first = {
      x: 1,
      getX(): number {
        return this.x;
      },
    };
    assert.equal(bound({ ...call, result: first }), 1);
    assert.equal(bound({ ...call, result: { ...first, x: 2 } }), 2);
    assert.throws(() => bound({ ...call, result: {} }), { code: 'SVC_CAPTURE_EXPRESSION' });
    assert.equal(bound({ ...call, result: { getX: () => 3 } }), 3);
  });

  it('lists the names that it uses', () => {
    const text = '{a: #result.id, b: email, c: args[0].![sku + #rate + this], d: #result, e: this}';
    assert.deepEqual(parseExpression(text).variables, ['result', 'email', 'args', 'rate', 'this']);
    assert.equal(parseExpression(text).text, text);
    assert.deepEqual(parseExpression('1').variables, []);
  });

  it('returns what the property holds, undefined and null included', () => {
    assert.equal(evaluate('result.missing'), undefined);
    assert.equal(evaluate('result.nothing'), null);
  });
});
