/** A set of line numbers as few ranges: what of a segment is done. */
export interface Ranges {
  has(line: number): boolean;
  add(line: number): void;
  /** How many lines there are in the set. */
  size(): number;
  /** `[[first, last], …]`, ascending. */
  toJSON(): readonly (readonly [number, number])[];
}

/** Ranges that others may have written: whole, ascending, apart, and of these lines alone; else `undefined`. */
export function rangesWithin(from: unknown, lineCount: number): Ranges | undefined {
  if (!Array.isArray(from)) return undefined;
  let next = 0;
  for (const range of from) {
    const [first, last, more] = Array.isArray(range) ? range : [];
    if (!Number.isSafeInteger(first) || !Number.isSafeInteger(last) || more !== undefined) return undefined;
    if (first < next || last < first || last >= lineCount) return undefined;
    next = last + 1;
  }
  return createRanges(from);
}

export function createRanges(from: unknown = []): Ranges {
  const ranges: [number, number][] = [];
  for (const range of Array.isArray(from) ? from : []) {
    const [first, last] = Array.isArray(range) ? range : [];
    if (Number.isSafeInteger(first) && Number.isSafeInteger(last)) ranges.push([first, last]);
  }

  /** Index of the first range that ends at or behind `line`. */
  function find(line: number): number {
    let low = 0;
    let high = ranges.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((ranges[middle] as [number, number])[1] < line) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  return {
    has(line) {
      const range = ranges[find(line)];
      return range !== undefined && range[0] <= line;
    },
    add(line) {
      const at = find(line);
      const next = ranges[at];
      if (next !== undefined && next[0] <= line) return;
      const before = ranges[at - 1];
      const joinsNext = next !== undefined && next[0] === line + 1;
      if (before !== undefined && before[1] === line - 1) {
        before[1] = joinsNext ? next[1] : line;
        if (joinsNext) ranges.splice(at, 1);
      } else if (joinsNext) next[0] = line;
      else ranges.splice(at, 0, [line, line]);
    },
    size: () => ranges.reduce((sum, [first, last]) => sum + last - first + 1, 0),
    toJSON: () => ranges.map(([first, last]) => [first, last] as const),
  };
}
