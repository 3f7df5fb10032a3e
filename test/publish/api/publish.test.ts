import assert from 'node:assert/strict';
import { setImmediate } from 'node:timers/promises';
import sinon from 'sinon';
import {
  invalidateEncryptionKeys,
  type RunningService,
  runningService,
} from '../../../src/publish/api/publish.ts';

describe('invalidateEncryptionKeys()', () => {
  afterEach(() => sinon.restore());

  it('resolves when the keys are there again, and at once where svc does not run', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const service = { invalidateEncryptionKeys: () => promise } as Partial<RunningService> as RunningService;
    const current = sinon.stub(runningService, 'current').value(service);
    let isOver = false;
    const asked = invalidateEncryptionKeys().then(() => {
      isOver = true;
    });
    await setImmediate();
    assert.equal(isOver, false);
    resolve();
    await asked;
    current.value(undefined);
    await invalidateEncryptionKeys();
  });
});
