import type { Clock } from '../../ground/clock.ts';
import type { Health } from '../controls.ts';
import { stateOf } from '../health-cache.ts';
import type { Measured, Recent } from '../monitoring-state.ts';

const freshMs = 15_000;
/** Somebody waits for the way back. */
const freshWhenDownMs = 5_000;

/** For a page that asks every two seconds: brokers and databases hear less of it, and what this process counts itself is of now. */
export function askSlowly(
  health: () => Promise<Health>,
  recent: Recent,
  clock: Pick<Clock, 'monotonic'>,
  others: () => Pick<Measured, 'targets' | 'backupProblem'> = () => ({}),
): () => Promise<Health> {
  let kept: { readonly health: Health; readonly untilMs: number } | undefined;
  return async () => {
    if (kept === undefined || clock.monotonic() >= kept.untilMs) {
      const asked = await health();
      const forMs = asked.status === 'UP' && asked.details.ageMs === undefined ? freshMs : freshWhenDownMs;
      kept = { health: asked, untilMs: clock.monotonic() + forMs };
    }
    const { findings: _, ...details } = kept.health.details;
    return { ...kept.health, details: { ...details, ...stateOf(recent, details.outbox, others()) } };
  };
}
