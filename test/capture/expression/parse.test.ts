import assert from 'node:assert/strict';
import { parseExpression } from '../../../src/capture/expression/compile.ts';

function refused(text: string, column: number, reason: RegExp): void {
  it(`${text} at column ${column}`, () => {
    assert.throws(() => parseExpression(text), {
      name: 'SvcError',
      code: 'SVC_CAPTURE_EXPRESSION_SYNTAX',
      message: new RegExp(`^Expression refused at column ${column}: .*${reason.source}`, 'u'),
    });
  });
}

describe('an expression is refused at start', () => {
  describe('when it does more than read', () => {
    refused('T(java.lang.Runtime).getRuntime()', 1, /type references/);
    refused('#result + T(Math).PI', 11, /type references/);
    refused('new Order()', 1, /"new"/);
    refused('{a: new Date()}', 5, /"new"/);
    refused('@orders.all', 1, /"@" is not expected/);
    refused('&@factory', 1, /&&/);
    refused('#result.id = 1', 12, /assignment/);
    refused('#x = 1', 4, /assignment/);
    refused('result.n += 1', 10, /"\+=" is not expected/);
    refused('result.n++', 9, /"\+\+" is not expected/);
    refused('--result.n', 1, /"--" is not expected/);
    refused('result => 1', 8, /function/);
    refused('eval("1")', 1, /functions/);
    refused('#print(1)', 1, /functions/);
    refused('result.items.push(1)', 14, /the method "push"/);
    refused('result.save()', 8, /the method "save"/);
    refused('result.getid()', 8, /the method "getid"/);
    refused('result.T(x)', 8, /the method "T"/);
    refused('`a`', 1, /'…'/);
    refused("result.id matches '(a+)+'", 11, /"matches" is not expected/);
    refused('result instanceof Order', 8, /"instanceof" is not expected/);
    refused('2 ** 3', 3, /"\*\*" is not expected/);
    refused('2 ^ 3', 3, /"\^" is not expected/);
  });

  for (const name of ['__proto__', 'constructor', 'prototype', '__defineGetter__', '__lookupSetter__']) {
    describe(`when it names ${name}`, () => {
      refused(`result.${name}`, 8, /prototypes and classes cannot be read/);
      refused(`result?.${name}`, 9, /prototypes and classes cannot be read/);
      refused(`result['${name}']`, 8, /prototypes and classes cannot be read/);
      refused(`result?.["${name}"]`, 10, /prototypes and classes cannot be read/);
      refused(`result.${name}()`, 8, /prototypes and classes cannot be read/);
      refused(`{${name}: 1}`, 2, /prototypes and classes cannot be read/);
      refused(`{'${name}': 1}`, 2, /prototypes and classes cannot be read/);
      refused(`#${name}`, 1, /prototypes and classes cannot be read/);
      refused(name, 1, /prototypes and classes cannot be read/);
      refused(`args.![${name}]`, 8, /prototypes and classes cannot be read/);
    });
  }

  describe('when it is incomplete or not an expression', () => {
    refused('', 1, /incomplete/);
    refused('   ', 4, /incomplete/);
    refused('1 +', 4, /incomplete/);
    refused('(1', 3, /"\)" is missing/);
    refused('{a: 1', 6, /"\}" is missing/);
    refused('result[0', 9, /"\]" is missing/);
    refused('result.getId(1', 15, /"\)" is missing/);
    refused('result.', 8, /incomplete/);
    refused('result.[0]', 8, /"\[" is not expected/);
    refused('result..id', 8, /"\." is not expected/);
    refused("result.'id'", 8, /"id" is not expected/);
    refused('result.#id', 8, /"#id" is not expected/);
    refused('true ? 1', 9, /":" is missing/);
    refused('1 2', 3, /"2" is not expected/);
    refused('result constructor', 8, /"constructor" is not expected/);
    refused('result toString', 8, /"toString" is not expected/);
    refused('result #id', 8, /"#id" is not expected/);
    refused("1 'a'", 3, /"a" is not expected/);
    refused("'abc", 1, /both quotes/);
    refused("1 + 'a''", 5, /both quotes/);
    refused('#', 1, /a name behind it/);
    refused('# result', 1, /a name behind it/);
    refused('#{result}', 1, /a name behind it/);
    refused('a === b', 3, /write ==/);
    refused('a !== b', 3, /write !=/);
    refused('a & b', 3, /write &&/);
    refused('a ; b', 3, /";" is not expected/);
    refused('a, b', 2, /"," is not expected/);
    refused('\\u0061', 1, /not expected/);
    refused('10L', 3, /"L" is not expected/);
    refused('0x10', 2, /"x10" is not expected/);
    refused('9007199254740992', 1, /too large/);
    refused('1e999', 1, /too large/);
    refused('result[1.5]', 8, /whole number/);
    refused('result[true]', 8, /whole number/);
    refused('result[((true))]', 10, /whole number/);
    refused("result[('constructor')]", 9, /prototypes and classes cannot be read/);
    refused('{a: 1, a: 2}', 8, /twice/);
    refused("{a: 1, 'a': 2}", 8, /twice/);
    refused('{a: 1, 2}', 9, /"\}" is not expected/);
    refused('{1, a: 2}', 6, /":" is not expected/);
    refused('{a: 1,}', 7, /"\}" is not expected/);
    refused('{1,}', 4, /"\}" is not expected/);
    refused('items.^[a]', 7, /"\^" is not expected/);
    refused('items.$[a]', 7, /"\$" is not expected/);
  });

  it('with its own text and a caret below the place', () => {
    assert.throws(() => parseExpression('result.constructor'), {
      message:
        'Expression refused at column 8: "constructor" is refused: prototypes and classes cannot be read.\n' +
        '  result.constructor\n' +
        '         ^',
    });
  });

  it('with an excerpt on one line when the text is long or has line breaks', () => {
    const text = `${'a + '.repeat(30)}\n'x' = 1 ${'+ b '.repeat(30)}`;
    const message = messageOf(text);
    const [first, line = '', caret = '', ...rest] = message.split('\n');
    assert.match(first ?? '', /column 126: .*assignment does not exist/u);
    assert.deepEqual(rest, []);
    assert.ok(line.startsWith('  …') && line.endsWith('…') && line.length < 80, line);
    assert.equal(line[caret.length - 1], '=');
  });
});

describe('the limits of an expression', () => {
  const limit = (accepted: string, rejected: string, reason: RegExp): void => {
    parseExpression(accepted);
    assert.match(messageOf(rejected), reason);
  };

  it('1,024 characters', () => {
    limit(`1${' '.repeat(1023)}`, `1${' '.repeat(1024)}`, /longer than 1024/u);
  });

  it('256 parts', () => {
    // A list is one part, and each number in it.
    limit(`{${'1,'.repeat(254)}1}`, `{${'1,'.repeat(255)}1}`, /more than 256 parts/u);
  });

  const nestings: readonly (readonly [string, (depth: number) => string])[] = [
    ['brackets', (depth) => `${'('.repeat(depth)}1${')'.repeat(depth)}`],
    ['lists', (depth) => `${'{'.repeat(depth)}1${'}'.repeat(depth)}`],
    ['maps', (depth) => `${'{a:'.repeat(depth)}1${'}'.repeat(depth)}`],
    ['indexes', (depth) => `${'p0['.repeat(depth)}1${']'.repeat(depth)}`],
    ['arguments', (depth) => `${'p0.getX('.repeat(depth)}1${')'.repeat(depth)}`],
    ['projections', (depth) => `${'p0.!['.repeat(depth)}1${']'.repeat(depth)}`],
    ['negations', (depth) => `${'!'.repeat(depth)}1`],
    ['signs', (depth) => `${'- '.repeat(depth)}1`],
    ['conditions', (depth) => `${'1 ? 2 : '.repeat(depth)}3`],
    ['defaults', (depth) => `${'1 ?: '.repeat(depth)}3`],
  ];
  for (const [what, nest] of nestings) {
    it(`24 levels of ${what}`, () => {
      limit(nest(24), nest(25), /nested deeper than 24/u);
    });
  }
});

function messageOf(text: string): string {
  try {
    parseExpression(text);
  } catch (error) {
    return (error as Error).message;
  }
  assert.fail('it was accepted');
}
