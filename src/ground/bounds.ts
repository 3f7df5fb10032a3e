/** Above any event of svc: a payload has at most 64 levels and 100,000 values. */
const maxDepth = 128;
const maxValues = 1_000_000;

/** The only JSON tokens that determine depth and width. */
const structure = /["[\]{},]/g;
const notSpace = /[^ \t\r\n]/;
const backslash = 0x5c;

/**
 * `JSON.parse` for untrusted texts: a few megabytes of brackets would become hundreds of megabytes of objects. `undefined` for
 * a text that is not an object or list, that is nested deeper, or that has more values.
 */
export function parseBounded(text: string, depth = maxDepth, values = maxValues): unknown {
  if (!isWithin(text, depth, values)) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The same for an object only. */
export function parseObject(text: string): Readonly<Record<string, unknown>> | undefined {
  const value = parseBounded(text);
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Readonly<Record<string, unknown>>)
    : undefined;
}

function isWithin(text: string, maxLevels: number, max: number): boolean {
  const first = notSpace.exec(text)?.[0];
  if (first !== '{' && first !== '[') return false;
  if (text.length <= max && countUpTo(text, '{', maxLevels) + countUpTo(text, '[', maxLevels) <= maxLevels)
    return true;
  let depth = 0;
  let values = 1;
  // Names are strings, too.
  let texts = 0;
  structure.lastIndex = 0;
  for (let found = structure.exec(text); found !== null; found = structure.exec(text)) {
    const [mark] = found;
    if (mark === '"') {
      const end = endOfText(text, found.index);
      if (end < 0 || ++texts > 2 * max) return false;
      structure.lastIndex = end + 1;
    } else if (mark === ']' || mark === '}') {
      if (--depth < 0) return false;
    } else {
      if (mark !== ',' && ++depth > maxLevels) return false;
      if (++values > max) return false;
    }
  }
  return true;
}

/** Counts marks inside strings as well: if there are few of them, the text is neither deep nor wide. */
function countUpTo(text: string, mark: string, max: number): number {
  let count = 0;
  for (let at = text.indexOf(mark); at >= 0 && count <= max; at = text.indexOf(mark, at + 1)) count++;
  return count;
}

/** The position of the closing quotation mark for `start`; -1 if it is missing. */
function endOfText(text: string, start: number): number {
  for (let at = text.indexOf('"', start + 1); at >= 0; at = text.indexOf('"', at + 1)) {
    let slashes = 0;
    while (text.charCodeAt(at - 1 - slashes) === backslash) slashes++;
    if (slashes % 2 === 0) return at;
  }
  return -1;
}

/** Larger ones are so slow to multiply and to convert to text that a few of them block the process. */
export const maxBigIntBits = 16_384;

const first = 1n << BigInt(maxBigIntBits);

/** Whether the number is too large to process. The comparison itself is fast at any size. */
export function isTooBig(value: bigint): boolean {
  return value >= first || value <= -first;
}

/** A set of line numbers as ranges: the processed lines of a segment. */
export interface Ranges {
  has(line: number): boolean;
  add(line: number): void;
  size(): number;
  /** `[[first, last], …]`, ascending. */
  toJSON(): readonly (readonly [number, number])[];
}

export function createRanges(from: unknown = []): Ranges {
  const ranges: [number, number][] = [];
  for (const range of Array.isArray(from) ? from : []) {
    const [first, last] = Array.isArray(range) ? range : [];
    if (Number.isSafeInteger(first) && Number.isSafeInteger(last)) ranges.push([first, last]);
  }

  /** Index of the first range that ends at or after `line`. */
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
