import assert from 'node:assert/strict';
import { lazySource } from '../../../src/publish/recovery/recover.ts';
import type { RecoverySource } from '../../../src/publish/recovery-source.ts';

describe('lazySource', () => {
  it('loads its source at the first look, once, and again after a failure', async () => {
    let loads = 0;
    const source = lazySource('local files', async () => {
      if (++loads === 1) throw new Error('not now');
      return { count: async () => 3, hasEvents: async () => true } as unknown as RecoverySource;
    });
    assert.equal(source.name, 'local files');
    assert.equal(loads, 0);
    await assert.rejects(source.hasEvents(), /not now/);
    assert.equal(await source.hasEvents(), true);
    assert.equal(await source.count(), 3);
    assert.equal(loads, 2);
  });

  it('has no events where its source cannot tell', async () => {
    const source = lazySource('local files', async () => ({}) as RecoverySource);
    assert.equal(await source.hasEvents(), false);
  });
});
