import { join } from 'node:path';
import { lastLines, runCommand } from '../../scripts/services/commands.ts';
import type { KafkaJars } from '../../scripts/services/kafka-jars.ts';

/** A record as the reader found it. */
export interface FoundRecord {
  readonly topic: string;
  readonly partition: number;
  /** When the broker appended it, in milliseconds since the epoch. */
  readonly appendedAt: number;
  readonly eventId: string;
  /** Key and number of the call that the event is from, out of its payload. */
  readonly key: string;
  readonly number: number;
}

const timeoutMs = 90_000;

/** All records of topics, in the order of each partition, read with Kafka's own Java consumer. */
export async function readTopics(
  jars: KafkaJars,
  brokers: readonly string[],
  topics: readonly string[],
): Promise<FoundRecord[]> {
  const program = join(import.meta.dirname, 'ReadTopics.java');
  const jvm = ['-Xmx512m', '-Dlog4j2.level=OFF', '-cp', jars.classPath];
  const { code, stdout, stderr } = await runCommand(
    jars.java,
    [...jvm, program, brokers.join(','), ...topics],
    { timeoutMs },
  );
  const lines = stdout.toString().trimEnd().split('\n');
  if (code !== 0 || lines.pop() !== 'end')
    throw new Error(`the topics could not be read (exit code ${code}):\n${lastLines(stderr, 4)}`);
  return lines.map((line) => {
    const [topic = '', partition, appendedAt, eventId = '', key = '', number] = line.split('\t');
    return {
      ...{ topic, eventId, key, partition: Number(partition) },
      ...{ appendedAt: Number(appendedAt), number: Number(number) },
    };
  });
}

/** The call that an event is from, out of its text; in a dead letter the event can be a text inside a text. */
export function callIn(text: string): { key: string; number: number } {
  const [, key = '-', number] = /\\?"call\\?":\\?"([^"\\]+)\/(\d+)\\?"/.exec(text) ?? [];
  return { key, number: Number(number) };
}
