import type { Config } from '../../config/config.ts';
import { type Clock, systemClock } from '../../ground/clock.ts';
import { isolate } from '../../observe/isolate.ts';
import type { Logger } from '../../observe/logger.ts';
import type { TopicReader } from '../../publish/topic-reader.ts';
import { openTopicReader } from '../adapters.ts';
import { brokerSettingsOf, goesToKafka } from '../settings.ts';

/** The consumer group under which a recovery remembers what it has sent, where it is given no other. */
export const recoveryGroup = 'svc-dlq-recovery';

/** For so long an answer is the answer, and a broker that gave none is not asked again. */
const freshMs = 60_000;

/** Counts dead letters that no recovery has sent yet: at most once in a minute, aside, and only while somebody wants to know. */
export function createDlqWaiting(
  openReader: () => Promise<Pick<TopicReader, 'open' | 'count' | 'close'>>,
  clock: Clock,
  logger: Pick<Logger, 'debug'>,
): () => number | null {
  let waiting: number | null = null;
  let isAsking = false;
  let askAtMs = Number.NEGATIVE_INFINITY;

  async function count(): Promise<number> {
    const reader = await openReader();
    try {
      await reader.open(false);
      return await reader.count();
    } finally {
      await reader.close();
    }
  }

  async function ask(): Promise<void> {
    isAsking = true;
    try {
      waiting = await isolate(count);
    } catch (error) {
      waiting = null;
      logger.debug(`dead letters that wait are not known: ${(error as Error).message}`);
    }
    isAsking = false;
    askAtMs = clock.monotonic() + freshMs;
  }

  return () => {
    if (!isAsking && clock.monotonic() >= askAtMs) void ask();
    return waiting;
  };
}

/** Those of the configured topic, where the broker can be asked. */
export function dlqWaitingOf(config: Config, logger: Logger): () => number | null {
  const { client, dlqTopic: topic } = config.broker;
  if (topic === undefined || (client !== 'file' && !goesToKafka(config))) return () => null;
  const settings = { ...brokerSettingsOf(config, logger), topic, group: recoveryGroup, keepsAlive: false };
  return createDlqWaiting(() => openTopicReader(client, settings), systemClock, logger);
}
