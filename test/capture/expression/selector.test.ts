import assert from 'node:assert/strict';
import { compileSelectors, type Selector } from '../../../src/capture/expression/compile.ts';
import { SvcError } from '../../../src/ground/errors.ts';

type Fields = Parameters<typeof compileSelectors>[0];
const payloadSelector = (fields: Fields, names: readonly string[] | undefined) =>
  compileSelectors(fields, names).payload;
const keySelector = (key: Fields['key'], names: readonly string[] | undefined) =>
  compileSelectors({ key }, names).key ?? assert.fail('no key');

const call = { args: ['first', { id: 2 }], result: { id: 7 }, self: { region: 'eu' }, error: undefined };

describe('the payload of a call', () => {
  it('takes the result by default', () => {
    assert.equal(payloadSelector({}, [])(call), call.result);
    assert.equal(payloadSelector({ payloadIndex: -1 }, undefined)(call), call.result);
    assert.equal(payloadSelector({}, [])({ ...call, result: undefined }), undefined);
    assert.equal(payloadSelector({}, [])({ ...call, result: null }), null);
  });

  it('takes an argument by its position', () => {
    assert.equal(payloadSelector({ payloadIndex: 0 }, [])(call), 'first');
    assert.equal(payloadSelector({ payloadIndex: 1 }, [])(call), call.args[1]);
    assert.throws(() => payloadSelector({ payloadIndex: 2 }, ['a', 'b', 'c'])(call), {
      code: 'SVC_CAPTURE_PAYLOAD_INDEX',
      message: 'payloadIndex is 2, but the call has 2 arguments.',
    });
  });

  it('refuses an index that is none', () => {
    for (const payloadIndex of [-2, 0.5, Number.NaN, Number.POSITIVE_INFINITY]) {
      assert.throws(() => payloadSelector({ payloadIndex }, []), { code: 'SVC_CAPTURE_PAYLOAD_INDEX' });
    }
  });

  it('refuses a function as the result or argument', () => {
    assert.throws(() => payloadSelector({}, [])({ ...call, result: () => 1 }), {
      code: 'SVC_CAPTURE_EXPRESSION',
    });
    assert.throws(() => payloadSelector({ payloadIndex: 0 }, [])({ ...call, args: [class {}] }), {
      code: 'SVC_CAPTURE_EXPRESSION',
    });
  });

  it('refuses a proxy that is revoked, which nothing can be asked of', () => {
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    for (const payload of [undefined, '#result', () => proxy])
      assert.throws(() => payloadSelector({ payload }, [])({ ...call, result: proxy }), {
        code: 'SVC_CAPTURE_EXPRESSION',
      });
  });

  it('evaluates an expression, which wins over the index', () => {
    assert.deepEqual(
      payloadSelector({ payload: '{n: name, id: #result.id}', payloadIndex: 1 }, ['name'])(call),
      {
        n: 'first',
        id: 7,
      },
    );
    assert.throws(() => payloadSelector({ payload: 'result.' }, []), {
      code: 'SVC_CAPTURE_EXPRESSION_SYNTAX',
    });
    assert.throws(() => payloadSelector({ payload: 'name' }, []), { code: 'SVC_CAPTURE_EXPRESSION_NAME' });
  });

  it('calls a function with args, result, self and error, and nothing else of the call', () => {
    const error = new Error('thrown');
    let seen: unknown;
    const payload: Selector = (scope) => {
      seen = scope;
      return { id: 1 };
    };
    const more = { ...call, error, plan: 'internal' };
    assert.deepEqual(payloadSelector({ payload, payloadIndex: 0 }, undefined)(more), { id: 1 });
    assert.deepEqual(seen, { args: call.args, result: call.result, self: call.self, error });
  });

  it('says that the function failed, without its message, value or cause', () => {
    const payload: Selector = () => {
      throw new Error('SECRET');
    };
    assert.throws(
      () => payloadSelector({ payload }, [])(call),
      (error) => {
        assert.ok(error instanceof SvcError);
        assert.equal(error.code, 'SVC_CAPTURE_EXPRESSION');
        assert.match(error.message, /^The payload function failed: /u);
        assert.ok(!`${error.message}${error.stack}`.includes('SECRET'));
        assert.equal(error.cause, undefined);
        return true;
      },
    );
  });

  it('refuses a function that returns a function or a symbol', () => {
    for (const value of [() => 1, Symbol('x')]) {
      assert.throws(() => payloadSelector({ payload: () => value }, [])(call), {
        code: 'SVC_CAPTURE_EXPRESSION',
      });
    }
  });
});

describe('the key of a call', () => {
  const keyOf = (value: unknown): string => keySelector(() => value, [])(call);

  it('gives the text of a string, number, bigint or boolean', () => {
    assert.deepEqual(
      [keyOf('k'), keyOf(''), keyOf(7), keyOf(-0.5), keyOf(10n), keyOf(false)],
      [...['k', '', '7', '-0.5', '10', 'false']],
    );
    assert.equal(keySelector("'order-' + #result.id", undefined)(call), 'order-7');
    assert.equal(keySelector('name', ['name'])(call), 'first');
  });

  it('fails for everything else, and says what it was, not what it held', () => {
    const cases: readonly (readonly [unknown, RegExp])[] = [
      [null, /gave null;/u],
      [undefined, /gave undefined;/u],
      [{ id: 'SECRET' }, /gave an object;/u],
      [['SECRET'], /gave an object;/u],
      [new Date(0), /gave an object;/u],
      [Number.NaN, /gave no number;/u],
      [Number.POSITIVE_INFINITY, /gave no number;/u],
    ];
    for (const [value, message] of cases) {
      assert.throws(() => keyOf(value), { code: 'SVC_CAPTURE_EXPRESSION', message });
    }
    assert.throws(() => keySelector('result.nope', [])(call), {
      code: 'SVC_CAPTURE_EXPRESSION',
      message: 'The key expression "result.nope" gave undefined; a key is a string, a number or a boolean.',
    });
  });

  it('refuses what cannot be parsed', () => {
    assert.throws(() => keySelector('result.', []), { code: 'SVC_CAPTURE_EXPRESSION_SYNTAX' });
  });
});
