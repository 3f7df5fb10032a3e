import { existsSync, readFileSync } from 'node:fs';
import type { StoredRecord } from '../../contract/broker.ts';

/** Reads a topic file byte by byte where it matters: the value as it stands in the line. */
export function readTopicFile(path: string): StoredRecord[] {
  if (!existsSync(path)) return [];
  const lines = readFileSync(path, 'utf8').split('\n');
  if (lines.pop() !== '') throw new Error('the last line has no end');
  // Empty: a process that starts takes a line that another one is just writing for half a one, and ends it.
  return lines.filter(Boolean).map((line) => {
    const { key, headers, timestamp } = JSON.parse(line);
    const before = `{"timestamp":${timestamp},"key":${JSON.stringify(key)},"headers":${JSON.stringify(headers)},"value":`;
    if (!line.startsWith(before)) throw new Error(`an unknown form of line: ${line.slice(0, 200)}`);
    return { key, headers, timestamp, partition: 0, value: Buffer.from(line.slice(before.length, -1)) };
  });
}
