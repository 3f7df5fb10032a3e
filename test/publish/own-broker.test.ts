import assert from 'node:assert/strict';
import { openOwnBroker, registerBroker } from '../../src/publish/own-broker.ts';
import { createFakeBroker } from '../outbox/relay/relay-under-test.ts';

// What its port promises: test/integration/own-parts.test.ts.
describe('a broker of the application', () => {
  it('keeps no process alive while it does not answer', async () => {
    const hanging = { ...createFakeBroker(Date.now), send: () => new Promise<never>(() => {}) };
    const takeOut = registerBroker('hanging', () => hanging);
    const broker = await openOwnBroker('hanging', {
      ...{ brokers: [], clientId: 'svc', requestTimeoutMs: 30_000, connectionTimeoutMs: 1_000 },
    });
    takeOut();
    const timers = (): number => process.getActiveResourcesInfo().filter((one) => one === 'Timeout').length;
    const before = timers();
    void broker.send('orders', 0, []);
    assert.equal(timers(), before);
  });
});
