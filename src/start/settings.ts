import { eventTypeOf } from '../capture/declare/make-plan.ts';
import type { Config } from '../config/config.ts';
import { extensions } from '../envelope/envelope.ts';
import { attributePrefix } from '../ground/event-fields.ts';
import { clientOf } from '../ground/management.ts';
import { createRetryPolicy, defaultBreaker } from '../publish/main/cluster-state.ts';
import { deliveryTimesOf } from '../publish/tiers/tiers.ts';

// Translates the configuration into the settings of the parts that engine.ts builds.

export function queueSettingsOf(config: Config) {
  const { broker, retry } = config;
  const { topic, buffer, maxInFlight } = broker;
  const { topicMs: deliveryTimeoutMs } = deliveryTimesOf(config);
  const batch = { ...broker.batch, isAwaited: !broker.asyncMode };
  const { initialInterval: initialIntervalMs, maxInterval: maxIntervalMs } = retry;
  return {
    ...{ topic, batch, buffer, maxInFlight, deliveryTimeoutMs },
    retry: createRetryPolicy({ ...retry, initialIntervalMs, maxIntervalMs }),
    breaker: { ...defaultBreaker, random: Math.random },
  };
}

/** The destination of events for log lines. `undefined`: unknown. */
export function placeOf({ broker }: Config): string | undefined {
  const { isKafka, isFiles, addresses } = clientOf(broker.client);
  const where = addresses(broker).join(', ');
  if (isFiles) return `files in ${where}`;
  return isKafka ? `Kafka at ${where} through ${broker.client}` : undefined;
}

/** Event types of targets that use the outbox. */
export function storedTypesOf({ targets }: Config): string[] {
  return targets.filter(({ outbox }) => outbox !== undefined).map(eventTypeOf);
}

/** The topics that the configuration sends events to. */
export function topicsOf({ broker, targets }: Config): string[] {
  const named = [broker.topic, ...targets.map(({ topic }) => topic)];
  return [...new Set(named.filter((topic) => topic !== undefined && topic !== ''))] as string[];
}

/** The headers that a record may have for its attributes in CloudEvents binary mode. */
export function attributeHeadersOf({ serde: { envelope, cloudevents } }: Config): readonly string[] {
  if (envelope !== 'cloudevents' || cloudevents.mode !== 'binary') return [];
  const core = ['specversion', 'id', 'source', 'type', 'time', 'subject'];
  return [...core, ...Object.values(extensions)].map((name) => attributePrefix + name);
}

/** The default consumer group of recoveries, which records what they have sent. */
export const recoveryGroup = 'svc-dlq-recovery';
