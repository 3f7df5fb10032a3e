import { shared } from '../../ground/lifecycle.ts';
import type { BrokerRecord } from '../../publish/broker.ts';

export interface StoredRecord {
  readonly topic: string;
  readonly record: BrokerRecord;
}

/** Records of all topics in the order they were sent. */
export interface MemoryStore {
  append(topic: string, records: readonly BrokerRecord[]): void;
  all(): readonly StoredRecord[];
  clear(): void;
  /** Calls `listener` after each append; the result stops it. */
  onAppend(listener: () => void): () => void;
}

export function createMemoryStore(): MemoryStore {
  let stored: StoredRecord[] = [];
  const listeners = new Set<() => void>();
  return {
    append(topic, records) {
      for (const record of records) stored.push({ topic, record });
      for (const listener of [...listeners]) listener();
    },
    all: () => [...stored],
    clear() {
      stored = [];
    },
    onAppend(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** The one of this process, which `svc/testing` reads. */
export function sharedMemoryStore(): MemoryStore {
  return shared('memory-broker', createMemoryStore);
}
