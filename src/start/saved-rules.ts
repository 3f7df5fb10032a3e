import { declaredRules } from '../capture/declare/declared-rules.ts';
import type { Config } from '../config/config.ts';
import type { CheckedEvent } from '../outbox/api/outbox-event.ts';
import type { Protection } from './protection.ts';

/** The `pii` of events that are saved: each set of rules of an event type is taken in once. */
export function savedRules(config: Config, protection: Pick<Protection, 'addRules'>) {
  const known = new Set<string>();
  return ({ eventType, pii, mistake }: CheckedEvent): void => {
    if (pii === undefined || mistake !== undefined) return;
    const rules = declaredRules({ pii }, config);
    const id = JSON.stringify([eventType, rules]);
    if (known.has(id)) return;
    known.add(id);
    protection.addRules(eventType, rules, `outbox.save(${eventType})`);
  };
}
