/** Deeper and wider than any event of svc: 64 levels and 100,000 values of a payload, with what is around it. */
export const mostDepth = 128;
export const mostValues = 1_000_000;

/** In JSON, nothing else tells how deep and how wide a text is. */
const structure = /["[\]{},]/g;
const notSpace = /[^ \t\r\n]/;
const backslash = 0x5c;

/**
 * `JSON.parse` for texts that others may have written: a few megabytes of brackets would become hundreds of megabytes of
 * objects, and end whoever walks through them. `undefined` for what is no object or list, nested deeper, or with more values.
 */
export function parseBounded(text: string, depth = mostDepth, values = mostValues): unknown {
  if (!isWithin(text, depth, values)) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isWithin(text: string, mostDeep: number, most: number): boolean {
  const first = notSpace.exec(text)?.[0];
  if (first !== '{' && first !== '[') return false;
  if (text.length <= most && countUpTo(text, '{', mostDeep) + countUpTo(text, '[', mostDeep) <= mostDeep)
    return true;
  let depth = 0;
  let values = 1;
  // Names are texts, too.
  let texts = 0;
  structure.lastIndex = 0;
  for (let found = structure.exec(text); found !== null; found = structure.exec(text)) {
    const [mark] = found;
    if (mark === '"') {
      const end = endOfText(text, found.index);
      if (end < 0 || ++texts > 2 * most) return false;
      structure.lastIndex = end + 1;
    } else if (mark === ']' || mark === '}') {
      if (--depth < 0) return false;
    } else {
      if (mark !== ',' && ++depth > mostDeep) return false;
      if (++values > most) return false;
    }
  }
  return true;
}

/** Those in texts as well: with few of them, and few characters, nothing is deep or wide. */
function countUpTo(text: string, mark: string, most: number): number {
  let count = 0;
  for (let at = text.indexOf(mark); at >= 0 && count <= most; at = text.indexOf(mark, at + 1)) count++;
  return count;
}

/** Of the quotation mark that ends the text which begins at `start`; -1 where there is none. */
function endOfText(text: string, start: number): number {
  for (let at = text.indexOf('"', start + 1); at >= 0; at = text.indexOf('"', at + 1)) {
    let slashes = 0;
    while (text.charCodeAt(at - 1 - slashes) === backslash) slashes++;
    if (slashes % 2 === 0) return at;
  }
  return -1;
}

/** Larger ones take so long to multiply, and to write as text, that a few of them block the process. */
export const maxBigIntBits = 16_384;

const first = 1n << BigInt(maxBigIntBits);

/** Whether nothing is to be done with this number. Comparing is fast, however large it is. */
export function isTooBig(value: bigint): boolean {
  return value >= first || value <= -first;
}

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
