import { execFileSync } from 'node:child_process';
import { startKafkaServer } from './services/kafka.ts';

export interface DemoKafka {
  readonly brokers: readonly string[];
  /** The first record of a topic, as JSON, read by Kafka's own console consumer. */
  readFirst(topic: string): Promise<string>;
  stop(): Promise<void>;
}

/** A real Kafka for the demo: the one that `KAFKA_BROKERS` names, else one of its own that ends with the demo. */
export async function startDemoKafka(say: (text: string) => void): Promise<DemoKafka> {
  say('\nStarting Apache Kafka (the first time it is fetched)');
  const kafka = await startKafkaServer({ log: (line) => say(`   ${line}`) });
  return {
    brokers: kafka.brokers,
    stop: () => kafka.stop(),
    async readFirst(topic) {
      const { program, args } = kafka.consoleConsumer([
        ...['--bootstrap-server', kafka.brokers.join(','), '--topic', topic, '--from-beginning'],
        ...[
          '--max-messages',
          '1',
          '--timeout-ms',
          '20000',
          '--property',
          'print.headers=true',
          '--property',
          'print.key=true',
        ],
      ]);
      const line = execFileSync(program, args, {
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore'],
      }).trim();
      const [headers = '', key = '', value = '{}'] = line.split('\t');
      const pairs = headers.split(',').map((header) => header.split(/:(.*)/s).slice(0, 2));
      return JSON.stringify({ key, headers: Object.fromEntries(pairs), value: JSON.parse(value) });
    },
  };
}
