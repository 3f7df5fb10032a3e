import { circuitStates } from '../../ground/management.ts';
import { askProcess, expectFound, NoAnswer } from './ask-process.ts';
import type { ManagedProcess } from './find-process.ts';

const totals = ['published', 'failed', 'dlq', 'backup', 'lost'] as const;
export type Total = (typeof totals)[number];

/** A process at one moment. `null`: it does not know, or has no such part. */
export interface Sample {
  readonly atMs: number;
  readonly status: string;
  /** One line of its health. */
  readonly remark: string | null;
  /** `HEALTHY`, `WARNING` or `CRITICAL`, by the last five minutes; `null` of a process that does not say. */
  readonly state: string | null;
  /** Thresholds that are crossed, and what to do about each. */
  readonly findings: readonly string[];
  /** Since the start of the process. */
  readonly events: Readonly<Record<Total, number | null>>;
  readonly breakers: Readonly<Record<'broker' | 'outbox', string | null>>;
  /** Its relay is not needed, as others send all rows. */
  readonly relayStandsBy: boolean;
  readonly backlog: {
    readonly memoryEvents: number | null;
    readonly backupEvents: number | null;
    readonly backupFiles: number | null;
    readonly outboxPending: number | null;
    readonly outboxOldestSeconds: number | null;
  };
}

/**
 * Health, and the numbers of `/actuator/prometheus`.
 *
 * @throws NoAnswer
 */
export async function takeSample(process: ManagedProcess): Promise<Sample> {
  const [health, metrics] = await Promise.all([
    askProcess(process, '/actuator/health/svc'),
    askProcess(process, '/actuator/prometheus'),
  ]);
  expectFound(health, process, 'health');
  expectFound(metrics, process, 'prometheus');
  // The bare status is for anybody. Where no token says more, it is all there is.
  const isBare = health.body?.details === undefined && process.token !== undefined;
  const { body } = isBare
    ? await askProcess(process, '/actuator/health/svc', 'GET', true).catch(() => health)
    : health;
  const { status, details } = (body ?? {}) as { status?: unknown; details?: Record<string, unknown> };
  if (typeof status !== 'string' || metrics.status !== 200)
    throw new NoAnswer(`what answers at ${process.url} is no svc`);
  const remark = details?.error ?? details?.warning;
  const value = (name: string, label = ''): number | null => sumOf(metrics.text, name, label);
  const stateOf = (breaker: string): string | null =>
    circuitStates[value('svc_circuit_state', `breaker="${breaker}"`) ?? -1] ?? null;
  return {
    ...{ atMs: Date.now(), status, remark: typeof remark === 'string' ? remark : null },
    state: typeof details?.state === 'string' ? details.state : null,
    findings: Array.isArray(details?.findings)
      ? details.findings.filter((each): each is string => typeof each === 'string')
      : [],
    events: Object.fromEntries(
      totals.map((name) => [name, value(`svc_events_${name}_total`)]),
    ) as Sample['events'],
    breakers: { broker: stateOf('broker'), outbox: stateOf('outbox') },
    relayStandsBy: (details?.outbox as { standsBy?: unknown } | undefined)?.standsBy === true,
    backlog: {
      memoryEvents: value('svc_buffer_events'),
      backupEvents: value('svc_backup_events'),
      backupFiles: value('svc_backup_files'),
      outboxPending: value('svc_outbox_pending'),
      outboxOldestSeconds: value('svc_outbox_oldest_pending_age_seconds'),
    },
  };
}

/** Events that it has stored by themselves, not atomic with what their calls wrote; 0 where it does not answer. */
export async function unjoinedOf(process: ManagedProcess): Promise<number> {
  const answer = await askProcess(process, '/actuator/prometheus').catch(() => undefined);
  return answer?.status === 200 ? (sumOf(answer.text, 'svc_outbox_unjoined_total', '') ?? 0) : 0;
}

/** Over all labels, or those that have this one; `null` where there is no such series. */
function sumOf(text: string, name: string, label: string): number | null {
  let sum: number | null = null;
  for (const line of text.split('\n')) {
    if (!line.startsWith(name) || !line.includes(label)) continue;
    const [, value = ''] = /^(?:\{.*\})? (\S+)/.exec(line.slice(name.length)) ?? [];
    if (value !== '') sum = (sum ?? 0) + Number(value);
  }
  return sum;
}

/** Events a second between two samples; `null` where one does not know, or the process was started anew. */
export function ratesOf(before: Sample, now: Sample): Readonly<Record<Total, number | null>> {
  const seconds = (now.atMs - before.atMs) / 1_000;
  const rate = (name: Total): number | null => {
    const [first, last] = [before.events[name], now.events[name]];
    if (first === null || last === null || last < first || seconds <= 0) return null;
    return Math.round(((last - first) / seconds) * 10) / 10;
  };
  return Object.fromEntries(totals.map((name) => [name, rate(name)])) as Record<Total, number | null>;
}
