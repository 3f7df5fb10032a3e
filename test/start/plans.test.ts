import assert from 'node:assert/strict';
import { planOfTarget } from '../../src/capture/declare/make-plan.ts';
import { loadConfig } from '../../src/config/read/load.ts';

describe('the plan of a target', () => {
  it('asks for no line of the configuration, which would have the file parsed once more at every start', () => {
    const code = { svc: { broker: { topic: 't' }, targets: [{ module: './rooms.ts', function: 'book' }] } };
    const { config } = loadConfig({ env: {}, code });
    const [target] = config.targets;
    assert.ok(target !== undefined);
    Object.defineProperty(target, 'where', {
      get: () => assert.fail('asked for its line'),
      enumerable: true,
    });
    assert.equal(planOfTarget(target, ['guest'], config).eventType, 'book');
  });
});
