const [quote, backslash, comma, colon] = [34, 92, 44, 58];
const [opensList, closesList, opensObject, closesObject] = [91, 93, 123, 125];

/**
 * The values of an object in JSON, found without making any of them: of the megabytes of a source map little is wanted. `undefined` where it is
 * not written as compilers and bundlers do, with texts, numbers and lists of texts: `JSON.parse` says what it is. Whoever makes a value of the
 * bytes learns there whether they are JSON.
 */
export function valuesIn(json: Buffer): ReadonlyMap<string, Buffer> | undefined {
  const values = new Map<string, Buffer>();
  let at = skipBlanks(json, 0);
  if (json[at] !== opensObject) return undefined;
  // What is behind the first brace, a quote or the end of a line, is behind each comma.
  const endOfList = `],${String.fromCharCode(json[at + 1] ?? closesObject)}`;
  do {
    const key = skipBlanks(json, at + 1);
    const from = valueOfKey(json, key);
    if (from === undefined) return undefined;
    const to = json[from] === opensList ? behindList(json, from, endOfList) : behindPlain(json, from);
    if (to === undefined) return undefined;
    values.set(json.toString('latin1', key + 1, json.indexOf(quote, key + 1)), json.subarray(from, to));
    at = skipBlanks(json, to);
  } while (json[at] === comma);
  return isEnd(json, at) ? values : undefined;
}

/** The elements of a list of texts, each with its quotes and none of them a comma alone; `undefined` where it has not so many, or one is no text. */
export function textsIn(list: Buffer, count: number): Buffer[] | undefined {
  const first = skipBlanks(list, 1);
  if (list[first] !== quote) return undefined;
  for (const separator of [', "', ',"']) {
    const starts = [first];
    for (let at = list.indexOf(separator); at !== -1; at = list.indexOf(separator, at + 1))
      if (list[at - 1] === quote && !isEscaped(list, at - 1)) starts.push(at + separator.length - 1);
    if (starts.length === count) {
      const ends = [...starts.slice(1).map((start) => start - separator.length + 1), list.length - 1];
      return starts.map((start, index) => list.subarray(start, ends[index]));
    }
  }
  return undefined;
}

/** `undefined` where no key of letters begins there. */
function valueOfKey(json: Buffer, from: number): number | undefined {
  if (json[from] !== quote) return undefined;
  let at = from + 1;
  while (isWord(json[at])) at++;
  if (json[at] !== quote) return undefined;
  at = skipBlanks(json, at + 1);
  return json[at] === colon ? skipBlanks(json, at + 1) : undefined;
}

/** Within a text of the list, nothing looks like its end and the next key, as quotes are escaped. */
function behindList(json: Buffer, from: number, end: string): number | undefined {
  for (let at = json.indexOf(end, from); at !== -1; at = json.indexOf(end, at + 1))
    if (valueOfKey(json, skipBlanks(json, at + 2)) !== undefined) return at + 1;
  const last = json.lastIndexOf(closesList) + 1;
  return last > from && isEnd(json, skipBlanks(json, last)) ? last : undefined;
}

/** A text, or a word or number. */
function behindPlain(json: Buffer, from: number): number | undefined {
  let at = from;
  if (json[at] === quote) {
    do at = json.indexOf(quote, at + 1);
    while (at !== -1 && isEscaped(json, at));
    return at === -1 ? undefined : at + 1;
  }
  while (isWord(json[at])) at++;
  return at === from ? undefined : at;
}

function isEscaped(json: Buffer, at: number): boolean {
  let before = at - 1;
  while (json[before] === backslash) before--;
  return (at - before) % 2 === 0;
}

function isEnd(json: Buffer, at: number): boolean {
  return json[at] === closesObject && skipBlanks(json, at + 1) === json.length;
}

function isWord(byte = 0): boolean {
  const letter = byte | 32;
  return (letter >= 97 && letter <= 122) || (byte >= 48 && byte <= 57) || byte === 95;
}

function skipBlanks(json: Buffer, from: number): number {
  let at = from;
  while (json[at] === 32 || json[at] === 10 || json[at] === 13 || json[at] === 9) at++;
  return at;
}
