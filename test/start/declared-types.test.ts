import assert from 'node:assert/strict';
import { publishEvent } from '../../src/capture/declare/publish-event.ts';
import { forgetDeclarations } from '../capture/forget-declarations.ts';
import { startSvc } from '../integration/started-svc.ts';

describe('event types that code declares', () => {
  afterEach(forgetDeclarations);

  it('are in /metrics with 0 before their first event, whether declared before the start or after it', async () => {
    publishEvent({ eventType: 'DECLARED_EARLY' }, () => undefined);
    const { address, end } = startSvc({ client: 'memory' });
    try {
      publishEvent({ eventType: 'DECLARED_LATE' }, () => undefined);
      const text = await (await fetch(`${await address()}/metrics`)).text();
      for (const type of ['DECLARED_EARLY', 'DECLARED_LATE'])
        for (const name of ['calls', 'published', 'failed', 'lost'])
          assert.ok(text.includes(`svc_events_${name}_total{eventType="${type}"} 0\n`), `${name} of ${type}`);
    } finally {
      await end();
    }
  });
});
