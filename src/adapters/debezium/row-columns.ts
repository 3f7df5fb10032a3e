import { besideTable } from '../../outbox/insert-row.ts';

/** A header of the records of an outbox, and the column of a row that has it for Debezium. */
export interface HeaderColumn {
  readonly header: string;
  readonly column: string;
  /** Whether a record may be without it. */
  readonly isOptional: boolean;
}

/** Behind the topic in the column of the route, with the headers that the record is without: `orders.v1#tracestate`. No topic has one. */
export const routeMark = '#';

/** In the order in which svc writes them. `names`: those of the application. */
export function headerColumns(names: readonly string[]): readonly HeaderColumn[] {
  const taken = new Set<string>();
  const columnOf = (header: string): string => {
    const plain = besideTable(header.toLowerCase().replaceAll(/[^a-z0-9]/g, '_'), '_header');
    let column = plain;
    for (let count = 2; taken.has(column); count++) column = besideTable(plain, `_${count}`);
    taken.add(column);
    return column;
  };
  const required = ['content-type', 'traceparent'];
  const optional = ['tracestate', ...names];
  return [...required, ...optional].map((header) => ({
    header,
    column: columnOf(header),
    isOptional: optional.includes(header),
  }));
}
