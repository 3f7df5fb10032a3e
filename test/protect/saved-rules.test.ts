import assert from 'node:assert/strict';
import { loadConfig } from '../../src/config/read/load.ts';
import type { Envelope } from '../../src/envelope/envelope.ts';
import { checkEvent } from '../../src/outbox/api/outbox-event.ts';
import { createProtection } from '../../src/protect/protection.ts';
import { openProvider } from '../../src/start/adapters.ts';

const event = { eventType: 'SAVED', aggregateType: 'Order', aggregateId: 7, payload: {} };

describe('rules of saved events', () => {
  const start = () => {
    const code = { svc: { broker: { topic: 't' } } };
    return createProtection(loadConfig({ env: {}, code }).config, openProvider);
  };

  it('are taken in once for each type and content', async () => {
    const { addSavedRules, protect, remarks, close } = start();
    for (let times = 0; times < 3; times++) addSavedRules(checkEvent({ ...event, pii: ['email=EMAIL'] }));
    addSavedRules(checkEvent({ ...event, pii: ['phone=PHONE'] }));
    addSavedRules(checkEvent({ ...event, eventType: 'OTHER', pii: ['email=EMAIL'] }));
    addSavedRules(checkEvent(event));
    for (const eventType of ['SAVED', 'OTHER']) protect({ template: { eventType }, payload: {} } as Envelope);
    assert.deepEqual(remarks()[0]?.split('\n').slice(1), [
      '  email  of outbox.save(SAVED), payloads: 1',
      '  phone  of outbox.save(SAVED), payloads: 1',
      '  email  of outbox.save(OTHER), payloads: 1',
    ]);
    await close();
  });

  it('that are none refuse the event', async () => {
    const { addSavedRules, close } = start();
    assert.throws(() => addSavedRules(checkEvent({ ...event, pii: ['email=NOTHING'] })), {
      code: 'SVC_PROTECT_RULE',
    });
    await close();
  });
});
