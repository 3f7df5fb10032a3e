import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { lastLines } from '../../scripts/services/commands.ts';
import type { KafkaJars } from '../../scripts/services/kafka-jars.ts';
import { FAST_JVM } from '../../scripts/services/kafka-node.ts';
import type { ReadRecord } from './kafka-records.ts';

/** Kafka's own consumer in one JVM for many reads: each start of one takes two seconds. */
export interface RecordReader {
  /** False once its JVM has ended. */
  readonly isRunning: boolean;
  read(request: ReadRequest): Promise<ReadRecord[]>;
  close(): void;
}

export interface ReadRequest {
  readonly brokers: readonly string[];
  readonly topic: string;
  readonly count: number;
  /** For the next record. */
  readonly timeoutMs: number;
}

interface Reading {
  readonly lines: string[];
  readonly timer: NodeJS.Timeout;
  resolve(lines: string[]): void;
  reject(error: Error): void;
}

/** Of the start of a JVM on a busy machine. */
const startMs = 20_000;

export function startRecordReader({ java, classPath }: KafkaJars): RecordReader {
  const program = join(import.meta.dirname, 'RecordReader.java');
  const jvm = ['-Xmx256m', ...FAST_JVM, '-Dlog4j2.level=OFF', '-cp', classPath];
  // It ends with its input, and so with this process, however that ends.
  const child = spawn(java, [...jvm, program], { stdio: 'pipe' });
  const readings: Reading[] = [];
  let said = '';
  let isRunning = true;
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said += text));
  child.stdin.on('error', () => {});
  child.once('error', (error) => end(error));
  child.once('close', () => end(new Error(`the reader of records has ended:\n${lastLines(said, 4)}`)));
  createInterface({ input: child.stdout }).on('line', (line) => {
    const [word, why] = line.split('\t', 2);
    if (word !== 'end' && word !== 'failed') return void readings[0]?.lines.push(line);
    const reading = readings.shift();
    clearTimeout(reading?.timer);
    if (word === 'end') reading?.resolve(reading.lines);
    else reading?.reject(new Error(why));
    if (readings.length === 0) hold(child, false);
  });

  function end(error: Error): void {
    isRunning = false;
    for (const { timer, reject } of readings.splice(0)) {
      clearTimeout(timer);
      reject(error);
    }
  }

  hold(child, false);
  return {
    get isRunning() {
      return isRunning;
    },
    async read({ brokers, topic, count, timeoutMs }) {
      const lines = await new Promise<string[]>((resolve, reject) => {
        const timer = setTimeout(() => child.kill('SIGKILL'), timeoutMs + startMs);
        readings.push({ lines: [], timer, resolve, reject });
        hold(child, true);
        child.stdin.write(`${[brokers.join(','), topic, count, timeoutMs].join('\t')}\n`);
      });
      return lines.map(recordOf);
    },
    close: () => child.stdin.end(),
  };
}

/** It keeps the test run alive while somebody waits for it, and not otherwise. */
function hold(child: ChildProcess, isHeld: boolean): void {
  for (const part of [child, child.stdout, child.stderr, child.stdin] as { ref(): void; unref(): void }[])
    if (isHeld) part.ref();
    else part.unref();
}

function recordOf(line: string): ReadRecord {
  const [partition, offset, timestamp, key = '', value = '', ...headers] = line.split('\t');
  const names = headers.filter((_, index) => index % 2 === 0);
  const valueBytes = bytesOf(value);
  return {
    ...{ partition: Number(partition), offset: Number(offset), timestamp: Number(timestamp) },
    key: textOf(key),
    headers: Object.fromEntries(
      names.map((name, index) => [String(textOf(name)), textOf(headers[2 * index + 1] ?? '')]),
    ),
    value: valueBytes?.toString() ?? null,
    valueBytes,
  };
}

const bytesOf = (text: string): Buffer | null => (text === '-' ? null : Buffer.from(text, 'base64'));
const textOf = (text: string): string | null => bytesOf(text)?.toString() ?? null;
