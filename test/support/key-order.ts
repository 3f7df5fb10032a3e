/** A record of a topic: what was called, under which key, and when it was its turn among the calls. */
export interface OrderedRecord {
  readonly key: string;
  readonly turn: number | bigint;
}

/**
 * Records that stand behind a later one of their key, beside that one. The first appearance of a turn counts: what is there
 * twice is no disorder.
 */
export function outOfOrder<One extends OrderedRecord>(records: Iterable<One>): [late: One, before: One][] {
  const seen = new Set<string>();
  const last = new Map<string, One>();
  const found: [One, One][] = [];
  for (const record of records) {
    const name = `${record.key}/${record.turn}`;
    if (seen.has(name)) continue;
    seen.add(name);
    const before = last.get(record.key);
    if (before !== undefined && record.turn < before.turn) found.push([record, before]);
    else last.set(record.key, record);
  }
  return found;
}
