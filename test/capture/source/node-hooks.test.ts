import assert from 'node:assert/strict';
import { hasSoundSyncHooks, isRequiredPreload } from '../../../src/capture/source/node-hooks.ts';

describe('capture: which Node versions have sound synchronous hooks', () => {
  const versions: [refused: string, accepted: string][] = [
    ['22.22.2', '22.22.3'],
    ['24.11.0', '24.11.1'],
    ['25.0.9', '25.1.0'],
    ['23.99.0', '26.0.0'],
  ];
  for (const [refused, accepted] of versions) {
    it(`${accepted}, not ${refused}`, () => {
      assert.equal(hasSoundSyncHooks(refused), false);
      assert.equal(hasSoundSyncHooks(accepted), true);
    });
  }

  it('later ones', () => {
    assert.ok(
      ['22.23.0', '24.12.0', '24.21.0', '26.10.0', '30.0.0'].every((version) => hasSoundSyncHooks(version)),
    );
  });

  it('a test run is no required preload', () => {
    assert.equal(isRequiredPreload(), false);
  });
});
