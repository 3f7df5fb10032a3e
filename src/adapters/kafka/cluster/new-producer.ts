import { backoffMs, systemClock } from '../../../ground/clock.ts';
import { who } from '../failure-lines.ts';
import type { KafkaClientOptions } from '../kafka-client-options.ts';
import { type ProducerId, producerIdRequest } from '../protocol/producer-id-request.ts';
import { protocolErrorIn } from '../send-failure.ts';
import { NoCommonVersion } from './broker-error.ts';
import type { Topics } from './topics.ts';

const firstPauseMs = 50;
const longestPauseMs = 1_000;

/** Of a cluster that is starting, or has just lost its controller. */
const passing = new Set([
  ...['COORDINATOR_LOAD_IN_PROGRESS', 'COORDINATOR_NOT_AVAILABLE', 'NOT_COORDINATOR', 'NOT_CONTROLLER'],
  ...['REQUEST_TIMED_OUT', 'CONCURRENT_TRANSACTIONS', 'UNKNOWN_SERVER_ERROR'],
]);

/** Asks the cluster for a producer id; `undefined` where it has none for this process, which is said once. */
export function newProducerOf(
  topics: Pick<Topics, 'ask'>,
  options: KafkaClientOptions,
): () => Promise<ProducerId | undefined> {
  let isSaid = false;
  const none = (why: string): undefined => {
    if (!isSaid) options.logger.warn(`Kafka may store an event twice that is sent again: ${why}`);
    isSaid = true;
  };
  return async () => {
    const endMs = systemClock.monotonic() + options.requestTimeoutMs;
    for (let tries = 1; ; tries++) {
      try {
        return await topics.ask(producerIdRequest);
      } catch (error) {
        const refusal = protocolErrorIn(error);
        if (isUnknown(error) || refusal === 'UNSUPPORTED_VERSION')
          return none(
            'it does not know the request InitProducerId (svc.broker.idempotence: false says nothing of this)',
          );
        if (refusal === 'CLUSTER_AUTHORIZATION_FAILED')
          return none(
            `${who(options)} may not be idempotent: give it IdempotentWrite on the cluster (Kafka before 2.8 asks for it), or set svc.broker.idempotence: false`,
          );
        if (refusal === undefined || !passing.has(refusal) || systemClock.monotonic() >= endMs) throw error;
        const pauseMs = backoffMs(tries, firstPauseMs, longestPauseMs);
        await new Promise((resolve) => setTimeout(resolve, pauseMs));
      }
    }
  };
}

function isUnknown(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause)
    if (cause instanceof NoCommonVersion) return true;
  return false;
}
