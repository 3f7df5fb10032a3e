import assert from 'node:assert/strict';
import { SvcError } from '../../src/ground/errors.ts';

class TokenFault extends SvcError {}

describe('SvcError', () => {
  const error = new SvcError('SVC_PUBLISH_LOST', 'lost');

  it('is one, and so are those of classes made of it', () => {
    const token = new TokenFault('SVC_ADAPTERS_TOKEN', 'no token');
    assert.ok(error instanceof SvcError && error instanceof Error);
    assert.ok(token instanceof SvcError && token instanceof TokenFault);
    assert.equal(error instanceof TokenFault, false);
  });

  it('nothing that only looks like one is one', () => {
    const strangers = [
      undefined,
      null,
      'SVC_PUBLISH_LOST',
      () => error,
      { ...error, name: 'SvcError', message: 'lost' },
      Object.assign(new Error('lost'), { name: 'SvcError', code: 'SVC_PUBLISH_LOST' }),
      Object.create(SvcError.prototype),
      new Proxy(error, {}),
    ];
    for (const stranger of strangers) assert.equal((stranger as object) instanceof SvcError, false);
  });
});
