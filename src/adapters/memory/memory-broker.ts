// memory/: a broker that keeps records in memory, for tests (`svc/testing`).

import { SvcError } from '../../ground/errors.ts';
import { topicNameForm, topicNamePattern } from '../../ground/event-fields.ts';
import { shared } from '../../ground/lifecycle.ts';
import type { Broker, BrokerRecord, SendFailure, SendResult } from '../../publish/broker.ts';

const closedFailure: SendFailure = {
  kind: 'fatal',
  cause: 'Closed',
  message: 'the memory broker is closed: svc has stopped',
};

/** Keeps every record in memory. Accepts Kafka's topic names only. */
export function createMemoryBroker(): Broker {
  const store = sharedMemoryStore();
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

export interface StoredRecord {
  readonly topic: string;
  readonly record: BrokerRecord;
}

/** Records of all topics in the order they were sent. */
function createMemoryStore() {
  let stored: StoredRecord[] = [];
  const listeners = new Set<() => void>();
  return {
    append(topic: string, records: readonly BrokerRecord[]): void {
      for (const record of records) stored.push({ topic, record });
      for (const listener of [...listeners]) listener();
    },
    all: (): readonly StoredRecord[] => [...stored],
    clear(): void {
      stored = [];
    },
    /** Calls `listener` after each append. Returns a function that removes it. */
    onAppend(listener: () => void): () => void {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}

/** The store of this process, which `svc/testing` reads. */
export const sharedMemoryStore = () => shared('memory-broker', createMemoryStore);
