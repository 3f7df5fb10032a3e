import { randomBytes } from 'node:crypto';
import { lastLines, runCommand } from '../../scripts/services/commands.ts';
import { ensureKafkaJars } from '../../scripts/services/kafka-jars.ts';
import type { KafkaServer } from '../../scripts/services/kafka-server.ts';
import { type ReadRequest, type RecordReader, startRecordReader } from './record-reader.ts';

/** A record as Kafka's own consumer gave it. */
export interface ReadRecord {
  readonly partition: number;
  readonly offset: number;
  /** Milliseconds since the epoch. */
  readonly timestamp: number;
  readonly key: string | null;
  readonly headers: Readonly<Record<string, string | null>>;
  readonly value: string | null;
  readonly valueBytes: Buffer | null;
}

let reader: RecordReader | undefined;

/**
 * Reads `count` records of a topic from its beginning with Kafka's own consumer (a client svc has nothing to do with), in the
 * order of partitions and offsets.
 */
export async function readRecords(
  server: KafkaServer,
  request: Omit<ReadRequest, 'brokers'>,
): Promise<ReadRecord[]> {
  // In Docker there need not be a Java here.
  if (server.how === 'docker') return readByConsole(server, request);
  if (!reader?.isRunning) reader = startRecordReader(await ensureKafkaJars(() => {}));
  return inOrder(await reader.read({ ...request, brokers: server.brokers }));
}

/** Ends what `readRecords` has started. */
export function closeReader(): void {
  reader?.close();
}

/** The same with Kafka's console consumer. Takes about two seconds, most of them for the start of a JVM. */
export async function readByConsole(
  server: KafkaServer,
  { topic, count, timeoutMs }: Omit<ReadRequest, 'brokers'>,
): Promise<ReadRecord[]> {
  const mark = randomBytes(6).toString('hex');
  const marks = { field: `<${mark}F>`, record: `<${mark}R>`, header: `<${mark}H>`, none: `<${mark}N>` };
  const properties = {
    ...{ 'print.timestamp': true, 'print.partition': true, 'print.offset': true, 'print.headers': true },
    ...{ 'print.key': true, 'key.separator': marks.field, 'line.separator': marks.record },
    ...{ 'headers.separator': marks.header, 'null.literal': marks.none },
  };
  const { program, args } = server.consoleConsumer([
    ...['--bootstrap-server', server.brokers.join(','), '--topic', topic, '--from-beginning'],
    ...['--max-messages', String(count), '--timeout-ms', String(timeoutMs)],
    ...Object.entries(properties).flatMap(([name, value]) => ['--formatter-property', `${name}=${value}`]),
  ]);
  const { code, stdout, stderr } = await runCommand(program, args, { timeoutMs: timeoutMs + 20_000 });
  const records = splitBuffer(stdout, marks.record)
    .slice(0, -1)
    .map((each) => parseRecord(each, marks));
  if (records.length !== count) {
    throw new Error(
      `${records.length} of ${count} records of ${topic} were read (exit code ${code})\n${lastLines(stderr, 4)}`,
    );
  }
  return inOrder(records);
}

function inOrder(records: ReadRecord[]): ReadRecord[] {
  return records.sort((a, b) => a.partition - b.partition || a.offset - b.offset);
}

interface Marks {
  readonly field: string;
  readonly header: string;
  readonly none: string;
}

function parseRecord(printed: Buffer, { field, header, none }: Marks): ReadRecord {
  const [timestamp, partition, offset, headers, key, value] = splitBuffer(printed, field);
  if (!timestamp || !partition || !offset || !headers || !key || !value) {
    throw new Error('the console consumer printed a record in an unknown form');
  }
  const textOrNull = (text: string): string | null => (text === none ? null : text);
  const numberIn = (labelled: Buffer): number => Number(labelled.toString().replace(/^\w+:/, ''));
  const pairs = headers.toString() === 'NO_HEADERS' ? [] : headers.toString().split(header);
  return {
    partition: numberIn(partition),
    offset: numberIn(offset),
    timestamp: numberIn(timestamp),
    key: textOrNull(key.toString()),
    headers: Object.fromEntries(
      pairs.map((pair) => {
        const colon = pair.indexOf(':');
        return [pair.slice(0, colon), textOrNull(pair.slice(colon + 1))];
      }),
    ),
    value: textOrNull(value.toString()),
    valueBytes: value.toString() === none ? null : value,
  };
}

function splitBuffer(buffer: Buffer, mark: string): Buffer[] {
  const parts: Buffer[] = [];
  let start = 0;
  for (let at = buffer.indexOf(mark); at >= 0; at = buffer.indexOf(mark, start)) {
    parts.push(buffer.subarray(start, at));
    start = at + mark.length;
  }
  parts.push(buffer.subarray(start));
  return parts;
}
