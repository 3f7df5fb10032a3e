import { execFile } from 'node:child_process';
import { startFakeKafka } from '../test/support/fake-kafka.ts';
import { startKafkaServer } from './services/kafka.ts';

/** The broker that the demo hurts: its own. It ends with the demo. */
export interface DemoBroker {
  readonly address: string;
  /** What it is, and what `kill` does to it. */
  readonly is: string;
  readonly killed: string;
  /**
   * The records of these topics, in the order of each partition, as the broker has them.
   *
   * @param count how many there should be: one more would be among them
   */
  read(topics: readonly string[], count: number): Promise<DemoRecord[]>;
  /** Ends it at once, as a crash does. What it has stored stays. */
  kill(): Promise<void>;
  restart(): Promise<void>;
  stop(): Promise<void>;
}

export interface DemoRecord {
  /** Of the event, in the header. */
  readonly id: string;
  readonly key: string;
  /** JSON. */
  readonly value: string;
}

/** A server in this process that speaks as much of Kafka's protocol as svc needs, and keeps its records in memory. */
export async function startStandIn(): Promise<DemoBroker> {
  const fake = await startFakeKafka();
  fake.partitions = 3;
  return {
    address: fake.address,
    is: "a stand-in, a small server in Node that speaks Kafka's protocol over TCP",
    killed: 'its connections are cut, its port is closed',
    async read(topics) {
      const records: DemoRecord[] = [];
      for (const topic of topics)
        for (const { key, headers, value } of await fake.read(topic))
          records.push({ id: headers.eventId ?? '', key: key ?? '', value });
      return records;
    },
    kill: async () => fake.close(),
    restart: () => fake.reopen(),
    stop: async () => fake.close(),
  };
}

/** How long the consumer waits for one record more. */
const nextMs = 4_000;

/** A real Kafka, read by its own console consumer. */
export async function startRealKafka(say: (text: string) => void): Promise<DemoBroker> {
  say('Starting Apache Kafka (the first time it is downloaded)');
  const kafka = await startKafkaServer({ log: (line) => say(`   ${line}`) });
  const { controls } = kafka;
  if (controls === null) throw new Error('this Kafka cannot be stopped');
  const address = kafka.brokers.join(',');
  const parts = ['headers', 'key', 'value'];
  const print = parts.flatMap((part) => ['--formatter-property', `print.${part}=true`]);

  async function readOnce(topics: readonly string[], max: number, waitMs: number): Promise<DemoRecord[]> {
    const { program, args } = kafka.consoleConsumer([
      ...['--bootstrap-server', address, '--include', topics.join('|'), '--from-beginning'],
      ...['--max-messages', String(max), '--timeout-ms', String(waitMs), ...print],
    ]);
    // It ends with an error if nothing more comes, and that is the hope.
    const output = await new Promise<string>((resolve) =>
      execFile(program, args, { timeout: waitMs + 30_000 }, (_, stdout) => resolve(stdout)),
    );
    return [...output.matchAll(/\beventId:(\d+)\S*\t(.*)\t(\{.*)$/gm)].map(
      ([, id = '', key = '', value = '']) => ({ id, key, value }),
    );
  }

  return {
    address,
    is: 'a real Apache Kafka, started for this demo',
    killed: 'its process is killed',
    async read(topics, count) {
      let found: DemoRecord[] = [];
      // It ends after a while in which nothing came: on a busy machine also before the first record.
      for (let times = 1; times <= 3 && found.length < count; times++)
        found = await readOnce(topics, count + 1, times * nextMs);
      return found;
    },
    kill: () => controls.kill(),
    restart: () => controls.restart(),
    stop: () => kafka.stop(),
  };
}
