import assert from 'node:assert/strict';
import { parseExpression } from '../../../src/capture/expression/compile.ts';

const call = { args: ['first', 'second', 'third'], result: 'R', self: 'S', error: 'E' };

function value(text: string, parameterNames: readonly string[] | undefined): unknown {
  return parseExpression(text).bind(parameterNames)(call);
}

function refusal(text: string, parameterNames: readonly string[] | undefined): string {
  try {
    parseExpression(text).bind(parameterNames);
  } catch (error) {
    assert.equal((error as { code?: unknown }).code, 'SVC_CAPTURE_EXPRESSION_NAME');
    return (error as Error).message;
  }
  assert.fail('it was accepted');
}

describe('the names of an expression', () => {
  it('are the parameters, with and without #', () => {
    assert.equal(value('#email', ['order', 'email']), 'second');
    assert.equal(value('order', ['order', 'email']), 'first');
    assert.equal(value('#größe', ['größe']), 'first');
    assert.equal(value('#$cfg', ['$cfg']), 'first');
  });

  it('fall back to positions for parameters without a name', () => {
    assert.equal(value('p0', ['', 'email', '']), 'first');
    assert.equal(value('#a2', ['', 'email', '']), 'third');
    assert.equal(value('email', ['', 'email', '']), 'second');
    assert.match(
      refusal('#rest', ['', 'email', '']),
      /Names: result, args, self, this, error, email, p0, p1, p2\./u,
    );
  });

  it('are positions only where the parameters are not known', () => {
    assert.deepEqual(
      ['p1', '#a0', 'args[2]', 'result', 'self', 'this', 'error'].map((text) => value(text, undefined)),
      [...['second', 'first', 'third', 'R', 'S', 'S', 'E']],
    );
    assert.match(
      refusal('#email', undefined),
      /no name "email"\..*The names of the parameters are unknown here\./u,
    );
  });

  it('prefer the fixed ones over parameters of the same name, but a parameter "error" over the thrown error', () => {
    assert.equal(value('result', ['result']), 'R');
    assert.deepEqual(value('args', ['args']), call.args);
    assert.equal(value('self', ['self']), 'S');
    assert.equal(value('p1', ['p1']), 'second');
    assert.equal(value('error', ['order', 'error']), 'second');
  });

  it('go to the last of two parameters of one name, as in JavaScript', () => {
    assert.equal(value('a', ['a', 'a']), 'second');
  });

  it('count up to 99', () => {
    const args = Array.from({ length: 101 }, (_, index) => index);
    assert.equal(parseExpression('p99').bind(undefined)({ ...call, args }), 99);
    assert.match(refusal('p100', undefined), /no name "p100"/u);
    assert.match(refusal('p01', undefined), /no name "p01"/u);
  });

  it('are refused when unknown, with the nearest right ones and the place', () => {
    const names = ['customer', 'email'];
    assert.match(
      refusal('{a: #emial}', names),
      /^Expression refused at column 5: there is no name "emial"\. Did you mean email\?/u,
    );
    assert.match(refusal('reslt.id', names), /Did you mean result\?/u);
    assert.match(refusal('Result.id', names), /Did you mean result\?/u);
    assert.match(refusal('p', names), /Did you mean p0 or p1\?/u);
    assert.match(
      refusal('#xyz', names),
      /no name "xyz"\. Names: result, args, self, this, error, customer, email, p0, p1\./u,
    );
    assert.match(refusal('toString', names), /no name "toString"/u);
    assert.match(refusal('undefined', names), /no name "undefined"/u);
    assert.match(refusal('process.env', names), /no name "process"/u);
    assert.match(refusal('globalThis', names), /no name "globalThis"/u);
    assert.match(refusal('#root', names), /no name "root"/u);
  });
});
