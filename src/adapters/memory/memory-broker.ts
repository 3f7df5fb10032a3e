// memory/: a broker that keeps records in memory, for tests (`svc/testing`).

import { SvcError } from '../../ground/errors.ts';
import { topicNameForm, topicNamePattern } from '../../ground/event-fields.ts';
import type { Broker, SendFailure, SendResult } from '../../publish/broker.ts';
import { type MemoryStore, sharedMemoryStore } from './memory-store.ts';

export interface MemoryBrokerOptions {
  /** Default: the store of this process, which `svc/testing` reads. */
  readonly store?: MemoryStore;
}

const closedFailure: SendFailure = {
  kind: 'fatal',
  cause: 'Closed',
  message: 'the memory broker is closed: svc has stopped',
};

/** Keeps every record in memory, for tests: nothing is ever dropped. Takes the topic names that Kafka takes. */
export function createMemoryBroker(options: MemoryBrokerOptions = {}): Broker {
  const store = options.store ?? sharedMemoryStore();
  let closed = false;
  return {
    name: 'memory',
    async connect() {
      return closed ? failed(closedFailure) : { ok: true };
    },
    async send(topic, _partition, records) {
      if (closed) return failed(closedFailure);
      if (!topicNamePattern.test(topic)) {
        const message = `Kafka would refuse the name of topic ${JSON.stringify(topic.slice(0, 40))}: ${topicNameForm}`;
        return failed({ kind: 'fatal', cause: 'INVALID_TOPIC_EXCEPTION', message });
      }
      if (records.length > 0) store.append(topic, records);
      return { ok: true };
    },
    async partitionsFor(topic) {
      return topicNamePattern.test(topic) ? 1 : undefined;
    },
    async describe() {
      if (closed) throw new SvcError('SVC_ADAPTERS_NOT_REACHABLE', closedFailure.message);
      return { clusterId: null, nodeCount: 1 };
    },
    async close() {
      closed = true;
    },
  };
}

function failed(failure: SendFailure): SendResult {
  return { ok: false, failure };
}
