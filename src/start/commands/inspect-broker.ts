import type { Config } from '../../config/config.ts';
import { inTime } from '../../ground/clock.ts';
import type { Logger } from '../../observe/logger.ts';
import type { AccessReport } from '../../publish/broker-access.ts';
import { openBrokerAccess } from '../adapters.ts';
import { isLeasedInKafka } from '../ids.ts';
import { brokerSettingsOf } from '../settings.ts';
import { topicsOf } from './written-topics.ts';

/** With the group that was asked for. */
export type BrokerReport = AccessReport & { readonly groupName: string | undefined };

const longestMs = 15_000;

/**
 * What the broker of the configuration would let the application do. Writes nothing. Rejects with an `Error` of one line where
 * the broker does not answer, at the latest after `limitMs`.
 */
export async function inspectBroker(
  config: Config,
  logger: Logger,
  limitMs = longestMs,
): Promise<BrokerReport> {
  const { broker, idGenerator } = config;
  const topics = [...new Set([...topicsOf(config), ...(broker.dlqTopic ? [broker.dlqTopic] : [])])];
  const group = isLeasedInKafka(config) ? idGenerator.group : undefined;
  const ending = new AbortController();
  const where = broker.bootstrapServers.join(', ');
  const late = (): never => {
    throw new Error(`no answer from Kafka (${where}) within ${limitMs} ms`);
  };
  try {
    const ask = await openBrokerAccess(broker.client, brokerSettingsOf(config, logger));
    // Connections do not keep the process alive.
    const report = await inTime(ask({ topics, group }, ending.signal), { limitMs, keepsAlive: true, late });
    return { ...report, groupName: group };
  } finally {
    ending.abort();
  }
}
