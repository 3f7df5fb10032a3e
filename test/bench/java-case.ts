import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { ensureKafkaJars } from '../../scripts/services/kafka-jars.ts';
import type { CaseProcess } from './case-process.ts';
import { quantile } from './load.ts';
import { payload } from './payload.ts';

interface JavaRun {
  readonly seconds: number;
  readonly cpuUs: number;
  readonly latenciesMs: readonly number[];
}

/** Kafka's own producer and Jackson, with the same payload, key and headers, in a JVM of its own. Java compiles it. */
export async function startJavaCase(brokers: readonly string[], topic: string): Promise<CaseProcess> {
  const { java, classPath } = await ensureKafkaJars(() => {});
  const program = join(import.meta.dirname, 'JacksonProducer.java');
  const jvm = ['-Xmx512m', '-Dlog4j2.level=OFF', '-cp', classPath];
  const child = spawn(java, [...jvm, program, brokers.join(','), topic, JSON.stringify(payload)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit');
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const nextLine = async (): Promise<string> => {
    const { done, value } = await lines.next();
    if (done) throw new Error('the Java case of the bench has ended');
    return value;
  };
  await nextLine();
  return {
    async run({ events }) {
      child.stdin.write(`${events}\n`);
      const { latenciesMs, ...run } = JSON.parse(await nextLine()) as JavaRun;
      return {
        ...run,
        p50Ms: quantile(latenciesMs, 0.5),
        p99Ms: quantile(latenciesMs, 0.99),
        rssMb: Number.NaN,
      };
    },
    async end() {
      child.stdin.end();
      await ended;
    },
  };
}
