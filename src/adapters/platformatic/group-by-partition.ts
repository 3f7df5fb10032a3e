import type { BrokerRecord } from '../../publish/broker.ts';

let turn = 0;

/** Records without a partition go by their key, as in Java; those without a key in turn, all of one send to one partition. */
export function groupByPartition(
  records: readonly BrokerRecord[],
  partitionCount: number,
  murmur2: (data: Buffer) => number,
): Map<number, BrokerRecord[]> {
  const groups = new Map<number, BrokerRecord[]>();
  turn = (turn + 1) % 2 ** 31;
  for (const record of records) {
    const number = record.key === null ? turn : murmur2(Buffer.from(record.key)) & 0x7fffffff;
    const partition = number % partitionCount;
    const group = groups.get(partition);
    if (group === undefined) groups.set(partition, [record]);
    else group.push(record);
  }
  return groups;
}
