import assert from 'node:assert/strict';
import { createStaticKeyProvider } from '../../../src/protect/keys/key-ring.ts';

describe('static key provider', () => {
  const provider = createStaticKeyProvider([
    { id: 'k1', key: Buffer.alloc(32, 1) },
    { id: 'k2', key: Buffer.alloc(32, 2) },
  ]);

  it('gives the key of an id', async () => {
    assert.deepEqual(Buffer.from((await provider.getKey('k2')) as Uint8Array), Buffer.alloc(32, 2));
  });

  it('has no other', async () => {
    await assert.rejects(provider.getKey('k3'), {
      code: 'SVC_PROTECT_KEY_REFUSED',
      message: /no key with the id "k3"/,
    });
  });
});
