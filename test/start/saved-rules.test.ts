import assert from 'node:assert/strict';
import type { Config } from '../../src/config/config.ts';
import { checkEvent } from '../../src/outbox/api/outbox-event.ts';
import { savedRules } from '../../src/start/protection.ts';

const event = { eventType: 'SAVED', aggregateType: 'Order', aggregateId: 7, payload: {} };
const config = { pii: { enabled: true, fields: [] } } as unknown as Config;

describe('rules of saved events', () => {
  it('are taken in once for each type and content', () => {
    const added: string[] = [];
    const declare = savedRules(config, { addRules: (eventType) => void added.push(eventType) });
    for (let times = 0; times < 3; times++) declare(checkEvent({ ...event, pii: ['email=EMAIL'] }));
    declare(checkEvent({ ...event, pii: ['phone=PHONE'] }));
    declare(checkEvent({ ...event, eventType: 'OTHER', pii: ['email=EMAIL'] }));
    declare(checkEvent(event));
    assert.deepEqual(added, ['SAVED', 'SAVED', 'OTHER']);
  });

  it('that are none refuse the event', () => {
    const declare = savedRules(config, { addRules() {} });
    assert.throws(() => declare(checkEvent({ ...event, pii: ['email=NOTHING'] })), {
      code: 'SVC_PROTECT_RULE',
    });
  });
});
