import type { HealthDetails, OutboxHealth } from '../../src/manage/controls.ts';
import { watchHealth } from '../../src/manage/health.ts';

type Options = Parameters<typeof watchHealth>[0];
type Totals = ReturnType<Options['totals']>;

export const noCounts: Totals = {
  published: 0,
  failed: 0,
  dlq: 0,
  brokerErrors: 0,
  sends: 0,
  sendSeconds: 0,
};

/** What health shows of a process with these counts, `earlier` those of more than a minute ago. */
export async function measuredHealth({
  recent,
  earlier,
  outbox,
  ...others
}: Pick<Options, 'backupProblem' | 'targets'> & {
  readonly recent?: Partial<Totals>;
  readonly earlier?: { readonly counts: Partial<Totals>; readonly pass: () => void };
  readonly outbox?: Partial<OutboxHealth> | undefined;
}): Promise<Partial<Pick<HealthDetails, 'state' | 'findings'>>> {
  let counts = noCounts;
  const ofOutbox: OutboxHealth = {
    ...{ status: 'UP', circuitBreakerState: 'CLOSED', consecutiveFailures: 0, timeSinceLastSuccessMs: null },
    ...{ totalPending: 0, totalFailed: 0, oldestPendingMs: null, ...outbox },
  };
  const { health, close } = watchHealth({
    probe: async () => ({ clusterId: 'c', nodeCount: 1 }),
    known: () => ({ brokerProducerInitialized: true, topic: 't', dlqTopic: null }),
    ...{ totals: () => counts, sample: () => counts, ...others },
    outbox: outbox && (async () => ofOutbox),
  });
  if (earlier !== undefined) {
    counts = { ...noCounts, ...earlier.counts };
    earlier.pass();
  }
  counts = { ...noCounts, ...recent };
  const { state, findings } = (await health()).details;
  close();
  return { ...(state && { state }), ...(findings && { findings }) };
}
