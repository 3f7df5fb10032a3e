import { execFile, execFileSync } from 'node:child_process';
import type { TopicEvent } from './demo-ledger.ts';
import { startKafkaServer } from './services/kafka.ts';

export interface DemoKafka {
  readonly brokers: readonly string[];
  /** The first record of a topic, as JSON, read by Kafka's own console consumer. */
  readFirst(topic: string): Promise<string>;
  /** The first `most` records of these topics, in the order of each partition, read by Kafka's own console consumer. */
  readEvents(topics: readonly string[], most: number): Promise<TopicEvent[]>;
  /** Ends the broker as a crash does. */
  kill(): Promise<void>;
  restart(): Promise<void>;
  stop(): Promise<void>;
}

/** How long the consumer waits for one record more. */
const nextMs = 4_000;

/** A real Kafka for the demo, of its own: it is to be hurt. It ends with the demo. */
export async function startDemoKafka(say: (text: string) => void): Promise<DemoKafka> {
  say('\nStarting Apache Kafka (the first time it is fetched)');
  const kafka = await startKafkaServer({ log: (line) => say(`   ${line}`) });
  const { controls } = kafka;
  if (controls === null) throw new Error('this Kafka cannot be stopped');
  return {
    brokers: kafka.brokers,
    kill: () => controls.kill(),
    restart: () => controls.restart(),
    stop: () => kafka.stop(),
    async readEvents(topics, most) {
      const { program, args } = kafka.consoleConsumer([
        ...['--bootstrap-server', kafka.brokers.join(','), '--include', topics.join('|'), '--from-beginning'],
        ...['--max-messages', String(most), '--timeout-ms', String(nextMs)],
        ...['--formatter-property', 'print.headers=true', '--formatter-property', 'print.key=true'],
        ...['--formatter-property', 'print.value=false'],
      ]);
      // It ends with an error when nothing more comes, which is what is hoped for.
      const output = await new Promise<string>((resolve) =>
        execFile(program, args, { timeout: 30_000 }, (_, stdout) => resolve(stdout)),
      );
      return [...output.matchAll(/\beventId:(\d+)\S*\t(.*)$/gm)].map(([, id = '', key = '']) => ({
        id,
        key,
      }));
    },
    async readFirst(topic) {
      const { program, args } = kafka.consoleConsumer([
        ...['--bootstrap-server', kafka.brokers.join(','), '--topic', topic, '--from-beginning'],
        ...[
          '--max-messages',
          '1',
          '--timeout-ms',
          '20000',
          '--formatter-property',
          'print.headers=true',
          '--formatter-property',
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
