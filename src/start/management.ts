import type { Config } from '../config/config.ts';
import type { Controls, Info, KeyHealth } from '../manage/controls.ts';
import { cacheHealth } from '../manage/health-cache.ts';
import { type ManagementServer, startManagementServer } from '../manage/server.ts';
import { isolate } from '../observe/isolate.ts';
import type { Logger } from '../observe/logger.ts';
import type { MetricSources } from '../observe/metrics.ts';
import type { Broker } from '../publish/broker.ts';
import type { LossAlert } from '../publish/tiers/loss-alert.ts';
import type { ManagedOutbox } from './outbox/managed-outbox.ts';

export interface Managed {
  readonly broker: Broker;
  /** The broker was asked, from `sinceMs` on, and does not answer. */
  readonly onAway: (message: string, sinceMs: number) => void;
  readonly alert: LossAlert;
  readonly keys: () => readonly KeyHealth[];
  readonly sources: MetricSources;
  readonly info: Info;
  readonly outbox: ManagedOutbox | undefined;
}

/** That of Prometheus exporters of OpenTelemetry as well: one in the same process has it before svc has. */
const usualPort = { port: 9464, portTries: 10 };

/** Starts the management server and says where it is; `undefined` where it cannot listen, or this is a worker thread. */
export async function startManagement(
  config: Config,
  logger: Logger,
  managed: Managed,
): Promise<ManagementServer | undefined> {
  const { server, endpoints, endpoint } = config.management;
  const exposure = endpoints.web.exposure.include;
  const started = await startManagementServer(
    {
      ...server,
      ...(server.port === undefined ? usualPort : { port: server.port }),
      exposure,
      ...endpoint.health,
    },
    {
      health: healthOf(config, managed),
      metricsText: () => metricsText(managed),
      info: () => managed.info,
      outbox: managed.outbox,
    },
    logger,
  );
  if (started !== undefined) logger.info(`management on http://${hostOf(started)}/metrics`);
  return started;
}

/** What serializes is loaded at the first scrape: many applications are never scraped here. */
async function metricsText({ sources, info }: Managed): Promise<string> {
  const { renderMetrics } = await import('../observe/prometheus/render-metrics.ts');
  return renderMetrics(sources, info.service);
}

function hostOf({ address, port }: ManagementServer): string {
  return `${address.includes(':') ? `[${address}]` : address}:${port}`;
}

function healthOf(
  { broker: settings }: Config,
  { broker, onAway, alert, keys, sources, outbox }: Managed,
): Controls['health'] {
  let reached = false;
  return cacheHealth({
    probe: async () => {
      const state = await isolate(() => broker.describe());
      reached = true;
      return state;
    },
    known: () => {
      const ids = sources.worker();
      return {
        brokerProducerInitialized: reached,
        topic: settings.topic,
        dlqTopic: settings.dlqTopic ?? null,
        ...(ids && { worker: { id: ids.workerId, source: ids.source } }),
      };
    },
    alert: alert.state,
    keys,
    outbox: outbox?.health,
    onAway,
  });
}
