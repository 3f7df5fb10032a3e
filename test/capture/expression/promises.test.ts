import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import type { ExpressionScope } from '../../../src/capture/call.ts';
import { compileSelectors, parseExpression } from '../../../src/capture/expression/compile.ts';

const refused = { name: 'SvcError', code: 'SVC_CAPTURE_EXPRESSION_ASYNC' };

function scope(result: unknown, args: unknown[] = []): ExpressionScope {
  return { args, result, self: undefined };
}

/** How many rejections nobody handled, of those that `run` causes. Mocha's own listener would fail the test. */
async function unhandledRejections(run: () => void): Promise<number> {
  const others = process.listeners('unhandledRejection');
  process.removeAllListeners('unhandledRejection');
  let count = 0;
  process.on('unhandledRejection', () => {
    count += 1;
  });
  try {
    run();
    await turn();
    await turn();
  } finally {
    process.removeAllListeners('unhandledRejection');
    for (const listener of others) process.on('unhandledRejection', listener);
  }
  return count;
}

const rejecting = async (): Promise<never> => {
  throw new Error('SECRET');
};

/** As query builders are: to call its `then` would run it. */
function lazyQuery(): object {
  return Object.defineProperty({}, 'then', { value: () => assert.fail('the query ran') });
}

describe('a promise in an expression', () => {
  const cases: readonly (readonly [string, unknown])[] = [
    ['result', Promise.resolve(1)],
    ['result.p', { p: Promise.resolve(1) }],
    ['result.p.id', { p: Promise.resolve(1) }],
    ["result['p']", { p: Promise.resolve(1) }],
    ['result[0]', [Promise.resolve(1)]],
    ['result[0]', new Map([[0, Promise.resolve(1)]])],
    ['{a: result.p}', { p: Promise.resolve(1) }],
    ['result.p ? 1 : 2', { p: Promise.resolve(1) }],
    ['result.![1]', [Promise.resolve(1)]],
    ['result.![1]', new Map([['a', Promise.resolve(1)]])],
    ['result.at(0)', [Promise.resolve(1)]],
    ['result.getIt()', { getIt: async () => 1 }],
    ['result.getIt().id', { getIt: async () => 1 }],
    ['result.getIt()', { getIt: lazyQuery }],
    ['result.query', { query: lazyQuery() }],
  ];
  for (const [text, result] of cases) {
    it(`is refused: ${text}`, () => {
      assert.throws(() => parseExpression(text).bind([])(scope(result)), refused);
    });
  }

  it('that a method or a getter made leaves no unhandled rejection behind', async () => {
    const result = {
      getDto: rejecting,
      get dto() {
        return rejecting();
      },
    };
    const count = await unhandledRejections(() => {
      assert.throws(() => parseExpression('result.getDto()').bind([])(scope(result)), refused);
      assert.throws(() => parseExpression('result.dto').bind([])(scope(result)), refused);
      assert.throws(() => parseExpression("result['dto']").bind([])(scope(result)), refused);
      assert.throws(() => compileSelectors({ payload: rejecting }, []).payload(scope(result)), refused);
      assert.throws(() => compileSelectors({ key: rejecting }, []).key?.(scope(result)), refused);
    });
    assert.equal(count, 0);
  });

  it("that the application holds stays the application's: its rejection is not hidden", async () => {
    const count = await unhandledRejections(() => {
      const result = { stored: rejecting() };
      assert.throws(() => parseExpression('result.stored').bind([])(scope(result)), refused);
      assert.throws(() => parseExpression('p0').bind([])(scope(1, [rejecting()])), refused);
      assert.throws(
        () => compileSelectors({ payloadIndex: 0 }, []).payload(scope(1, [rejecting()])),
        refused,
      );
    });
    assert.equal(count, 3);
  });
});
