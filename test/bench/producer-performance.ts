import { execFileSync } from 'node:child_process';
import { ensureKafkaJars } from '../../scripts/services/kafka-jars.ts';

export interface ProducerPerformance {
  readonly recordsPerSecond: number;
  readonly averageMs: number;
  readonly p99Ms: number;
}

/** Kafka's own Java producer with its defaults, as Kafka's own measuring tool runs it: random bytes, no key, no headers. */
export async function producerPerformance(
  brokers: readonly string[],
  topic: string,
  records: number,
  recordBytes: number,
): Promise<ProducerPerformance> {
  const { java, classPath } = await ensureKafkaJars(() => {});
  const output = execFileSync(
    java,
    [
      ...['-Xmx512m', '-Dlog4j2.level=OFF', '-cp', classPath, 'org.apache.kafka.tools.ProducerPerformance'],
      ...['--topic', topic, '--num-records', String(records), '--record-size', String(recordBytes)],
      ...['--throughput', '-1', '--producer-props', `bootstrap.servers=${brokers.join(',')}`, 'acks=all'],
    ],
    { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], timeout: 120_000 },
  );
  const last = output.trim().split('\n').at(-1) ?? '';
  const numbers = /([\d.]+) records\/sec.*?([\d.]+) ms avg latency.* ([\d.]+) ms 99th/.exec(last);
  if (numbers === null) throw new Error(`ProducerPerformance said: ${last}`);
  const [recordsPerSecond, averageMs, p99Ms] = numbers.slice(1).map(Number) as [number, number, number];
  return { recordsPerSecond, averageMs, p99Ms };
}
