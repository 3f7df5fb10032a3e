import type { Broker, BrokerRecord, SendFailure, SendResult } from '../../../src/publish/broker.ts';
import { away, forbidden, noAnswer } from '../fake-cluster.ts';

/** How sends go: at once, refused connections, no answers (stored or not), topics that are refused. */
export type Weather = 'up' | 'away' | 'silent' | 'loses answers' | 'refuses refused';

export interface ModelCluster {
  weather: Weather;
  /** What consumers see, in order, of each partition. */
  readonly stored: { topic: string; partition: number | undefined; key: string; id: string }[];
  brokerOf(owner: { isDead: boolean }): Broker;
  partitions: number | undefined;
}

const never = new Promise<never>(() => {});
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

export function createModelCluster(): ModelCluster {
  const cluster: ModelCluster = {
    weather: 'up',
    stored: [],
    partitions: 3,
    brokerOf(owner) {
      const inFlight = new Set<string>();
      return {
        name: 'model',
        connect: async () => ({ ok: true }),
        async send(topic, partition, records) {
          if (owner.isDead) return never;
          const id = `${topic} ${partition}`;
          inFlight.add(id);
          const result = await sendInto(topic, partition, records);
          inFlight.delete(id);
          return owner.isDead ? never : result;
        },
        partitionsFor: async () => (cluster.weather === 'away' ? undefined : cluster.partitions),
        async describe() {
          if (cluster.weather === 'silent') return never;
          if (cluster.weather === 'away') throw new Error('away');
          return { clusterId: null, nodeCount: 1 };
        },
        close: async () => {},
      };
    },
  };

  function store(topic: string, partition: number | undefined, records: readonly BrokerRecord[]): void {
    for (const { key, headers } of records)
      cluster.stored.push({ topic, partition, key: key as string, id: headers.eventId as string });
  }

  async function sendInto(
    topic: string,
    partition: number | undefined,
    records: readonly BrokerRecord[],
  ): Promise<SendResult> {
    const failed = (failure: SendFailure): SendResult => ({ ok: false, failure });
    const { weather } = cluster;
    if (weather === 'away') {
      await sleep(2);
      return failed(away);
    }
    if (weather === 'silent') {
      await sleep(3_000);
      // It may be written by a broker that comes back, after nobody waits for it any more.
      if (records.length % 2 === 0) setTimeout(() => store(topic, partition, records), 500);
      return failed(noAnswer);
    }
    await sleep(3);
    if (weather === 'refuses refused' && topic === 'refused') return failed(forbidden);
    store(topic, partition, records);
    await sleep(2);
    return weather === 'loses answers' && records.length % 2 === 1 ? failed(noAnswer) : { ok: true };
  }
  return cluster;
}
