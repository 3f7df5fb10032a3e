import type { BrokerRecord } from '../../publish/broker.ts';

const newline = Buffer.from('\n');
const lineFeed = 0x0a;
const beginsJson = new Set([...'{["-0123456789tfn'].map((character) => character.charCodeAt(0)));

/** `{"timestamp":…,"key":…,"headers":{…},"value":` and the value's own bytes, one record a line. */
export function encodeLines(records: readonly BrokerRecord[]): Buffer {
  const parts: Buffer[] = [];
  for (const { timestamp, key, headers, value } of records) {
    const head = `{"timestamp":${timestamp},"key":${JSON.stringify(key)},"headers":${JSON.stringify(headers)},"value":`;
    parts.push(Buffer.from(head), value, Buffer.from('}'), newline);
  }
  return Buffer.concat(parts);
}

/** Whether the value can stand in a line as it is: JSON text without line breaks. Looks at the bytes, parses nothing. */
export function isOneLineOfJson({ value }: BrokerRecord): boolean {
  return beginsJson.has(value[0] ?? 0) && !value.includes(lineFeed);
}
