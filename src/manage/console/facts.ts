import { hostname } from 'node:os';
import { circuitStates } from '../../ground/management.ts';
import type { MetricSources } from '../../observe/metrics.ts';
import type { Controls, Health, Info } from '../controls.ts';
import { eventsByType, recentDlqOf } from '../metrics-report.ts';
import type { BrokerView, CircuitState } from '../metrics-shapes.ts';
import type { RecentSamples, Totals } from '../monitoring-state.ts';
import { type ConsoleDocument, mostTypes, type TypeFacts } from './document.ts';
import { historyOf, type Levels } from './history.ts';
import type { Trends } from './trends.ts';

export interface ConsoleParts {
  readonly sources: MetricSources;
  readonly recent: RecentSamples<Totals & Levels>;
  readonly trends: Trends;
  readonly health: Health;
  readonly info: Info;
  readonly environment: string | null;
  readonly traffic: BrokerView | undefined;
  readonly runs: Pick<Controls, 'deadLetterRecovery' | 'backupDrain'>;
  readonly nowMs: number;
}

type News = Pick<ConsoleDocument, 'history' | 'trends'>;

/** What is new of the last hour since then. */
export function newsOf({ recent, trends }: Pick<ConsoleParts, 'recent' | 'trends'>, afterMs: number): News {
  const history = historyOf(recent.samples(), afterMs);
  return { history, trends: afterMs === 0 || history.atMs.length > 0 ? trends.all() : [] };
}

/** All that the page shows beside that and the actions, read at one moment; never rejects. */
export function consoleFacts(parts: ConsoleParts): Omit<ConsoleDocument, 'actions' | keyof News> {
  const { sources, health, info, environment, traffic, runs, nowMs } = parts;
  const types = typesOf(sources);
  const ofOutbox = sources.outbox?.circuit() ?? null;
  return {
    atMs: nowMs,
    process: {
      ...info,
      ...{ host: hostname(), pid: process.pid, node: process.versions.node, environment },
      upSeconds: Math.floor(process.uptime()),
    },
    health,
    counts: countsOf(sources),
    queue: sources.buffer(),
    backup: sources.backup(),
    breakers: {
      broker: circuitStates[sources.circuit()] as CircuitState,
      outbox: ofOutbox === null ? null : (circuitStates[ofOutbox] as CircuitState),
    },
    connections: traffic ?? { connectionCount: null, inFlightRequests: null, requestLatencyAvg: null },
    types: types.slice(0, mostTypes),
    typeCount: types.length,
    targets: sources.captureTargets(),
    deadLetters: { waiting: sources.dlqWaiting(), recent: recentDlqOf(sources) },
    runs: { deadLetters: runs.deadLetterRecovery.latest(), backup: runs.backupDrain.latest() },
  };
}

function countsOf({ ledger }: MetricSources): ConsoleDocument['counts'] {
  const { brokerErrors: _, ...counts } = ledger.snapshot();
  return counts;
}

function typesOf(sources: MetricSources): TypeFacts[] {
  const published = eventsByType('svc.events.published', sources);
  const failed = eventsByType('svc.events.failed', sources);
  const deadLetters = eventsByType('svc.events.dlq', sources);
  const durations = new Map(
    [...sources.durations.rows()].map(({ attributes, histogram }) => [attributes.eventType, histogram]),
  );
  const types = [...new Set([...published.keys(), ...failed.keys()])].map((eventType) => {
    const took = durations.get(eventType);
    const isKnown = took !== undefined && took.count > 0;
    return {
      eventType,
      published: published.get(eventType) ?? 0,
      failed: failed.get(eventType) ?? 0,
      deadLetters: deadLetters.get(eventType) ?? 0,
      meanMs: isKnown ? Math.round((took.sum / took.count) * 10_000) / 10 : null,
      maxMs: isKnown ? Math.round(took.max * 10_000) / 10 : null,
    };
  });
  return types.sort((one, other) => other.published + other.failed - one.published - one.failed);
}
