/**
 * Measures a text by its tokens before parsing: the native stack that the parser needs, and the bracket groups to leave
 * out. A native parser that overflows its stack ends the process.
 */
interface Outline {
  readonly stackBytes: number;
  /** Groups by opening bracket; `undefined` if the brackets look unbalanced. */
  readonly groups: Groups | undefined;
}

/** One array for each property: a large text has hundreds of thousands of groups. */
interface Groups {
  readonly starts: number[];
  readonly ends: number[];
  /** Where the statement or member of the group begins. */
  readonly heads: number[];
  /** What an emptied group must contain. */
  readonly fills: Fill[];
  /** Where the function declaration with this body begins; -1 for other groups. */
  readonly declarations: number[];
}

type Fill = '' | '0' | undefined;

const shortestGroup = 40;

/**
 * Bytes of stack for one more level of each construct, measured on x64 with oxc-parser 0.154, plus at least a fifth.
 * For `else if`, `a.b.c` and sums, a level is one more in sequence.
 */
const costs = {
  bracket: 2_000,
  angle: 1_500,
  element: 650,
  arrow: 1_100,
  question: 900,
  colon: 500,
  equals: 650,
  dot: 300,
  operator: 160,
  group: 130,
} as const;

const keywordCosts = new Map([
  ...['class', 'extends'].map((each) => [each, 1_500] as const),
  ...['yield', 'for', 'keyof', 'infer', 'unique', 'readonly', 'with', 'asserts', 'abstract'].map(
    (each) => [each, 650] as const,
  ),
  ...['else', 'if', 'while', 'do', 'new', 'await'].map((each) => [each, 450] as const),
  ...['typeof', 'void', 'delete', 'in', 'instanceof', 'as', 'satisfies', 'is', 'of'].map(
    (each) => [each, costs.operator] as const,
  ),
  ...['return', 'throw', 'case', 'default', 'function', 'async', 'switch', 'catch', 'import', 'super'].map(
    (each) => [each, 0] as const,
  ),
  ...['const', 'let', 'var', 'export'].map((each) => [each, 0] as const),
]);
/** A value follows these words, so that a `/` is not a division. Excludes words that can be names. */
const beforeValue = new Set(
  'return throw case do else typeof void delete in instanceof new await yield extends default'.split(' '),
);
/** These begin a statement, whatever ends the previous line. */
const beginners = new Set('const let var function class import export return throw'.split(' '));
/** Their parentheses do not contain arguments. */
const heads = new Set('if while switch with'.split(' '));
const callers = new Set(['super', 'function', 'async']);

const [lf, cr, space, quote, dollar, apostrophe, star, slash, backslash, backtick] = [
  0x0a, 0x0d, 0x20, 0x22, 0x24, 0x27, 0x2a, 0x2f, 0x5c, 0x60,
] as const;
const [roundOpen, roundClose, squareOpen, squareClose, curlyOpen, curlyClose] = [
  0x28, 0x29, 0x5b, 0x5d, 0x7b, 0x7d,
] as const;
const [comma, dot, colon, semicolon, less, equals, greater, question, at] = [
  0x2c, 0x2e, 0x3a, 0x3b, 0x3c, 0x3d, 0x3e, 0x3f, 0x40,
] as const;
/** Kinds of an opening bracket: plain; of `if (…)`; a `{` that begins a value; `${`. */
const [plain, ofHead, ofValue, ofTemplate] = [0, 1, 2, 3] as const;

const isNameCode = (code: number): boolean =>
  (code >= 0x61 && code <= 0x7a) ||
  (code >= 0x41 && code <= 0x5a) ||
  (code >= 0x30 && code <= 0x39) ||
  code === 0x5f ||
  code === dollar ||
  code === 0x23 ||
  code > 0x7f;

const nameCodes = Uint8Array.from({ length: 0x80 }, (_, code) => (isNameCode(code) ? 1 : 0));

export function outlineOf(text: string, hasElements: boolean): Outline {
  const uncertain: Outline = { stackBytes: text.length * costs.angle, groups: undefined };
  const mayHoldElements = hasElements && /<\/|\/>/.test(text);
  const groups: Groups = { starts: [], ends: [], heads: [], fills: [], declarations: [] };
  // The open brackets from outside to inside: one entry of each array a level.
  const openCodes: number[] = [];
  const openKinds: number[] = [];
  const openGroups: number[] = [];
  const outerCosts: number[] = [];
  const outerChains: number[] = [];
  const outerAngles: number[] = [];
  const outerElements: number[] = [];
  const outerHeads: number[] = [];
  const outerDeclarations: number[] = [];
  let base = 0;
  /** The stack of the current statement at this level, and of the previous one, which an `else` continues. */
  let chain = 0;
  let before = 0;
  let angles = 0;
  let elements = 0;
  let head = 0;
  let max = 0;
  /** Whether the last token ends a value, is a name, and which one; whether it closed a block. */
  let isValue = false;
  let word = '';
  let isBlockEnd = false;
  let isNewLine = true;
  /** Whether the next token starts a statement; where a function declaration started with this statement. */
  let isFirst = true;
  let declaration = -1;
  /** The last closed group, until the next token shows its role. */
  let closed = -1;
  let last = 0;
  let position = 0;
  const { length } = text;

  const add = (cost: number): void => {
    chain += cost;
    const all = base + chain + angles * costs.angle + elements * costs.element;
    if (all > max) max = all;
  };
  const endStatement = (next: number): void => {
    before = chain;
    chain = 0;
    angles = 0;
    head = next;
    isFirst = true;
    declaration = -1;
  };
  /** Two values on two lines: a semicolon is omitted between them. Not after `async`, `keyof` and similar words. */
  const endsBefore = (name: string): boolean =>
    word === '' || word === 'a' ? name !== 'extends' : beginners.has(name);
  const open = (code: number, kind: number, fill: Fill): void => {
    add(costs.bracket);
    openCodes.push(code);
    openKinds.push(kind);
    openGroups.push(groups.starts.length);
    outerCosts.push(base);
    outerChains.push(chain - costs.bracket);
    outerAngles.push(angles);
    outerElements.push(elements);
    outerHeads.push(head);
    outerDeclarations.push(declaration);
    groups.declarations.push(code === curlyClose && kind === plain && last === roundClose ? declaration : -1);
    groups.starts.push(position);
    groups.ends.push(-1);
    groups.heads.push(head);
    groups.fills.push(fill);
    base += chain + angles * costs.angle + elements * costs.element;
    chain = 0;
    before = 0;
    angles = 0;
    elements = 0;
    head = position + 1;
    isFirst = code === curlyClose && kind === plain;
    declaration = -1;
  };
  /** The kind of the bracket that it closes; -1 if they do not match. */
  const close = (code: number): number => {
    if (openCodes.pop() !== code) return -1;
    closed = openGroups.pop() as number;
    // Nothing can be left out of short groups, nor of those in them.
    if (position - (groups.starts[closed] as number) < shortestGroup) {
      groups.starts.length = closed;
      groups.ends.length = closed;
      groups.heads.length = closed;
      groups.fills.length = closed;
      groups.declarations.length = closed;
      closed = -1;
    } else groups.ends[closed] = position;
    base = outerCosts.pop() as number;
    chain = outerChains.pop() as number;
    angles = outerAngles.pop() as number;
    elements = outerElements.pop() as number;
    head = outerHeads.pop() as number;
    declaration = outerDeclarations.pop() as number;
    isFirst = false;
    add(costs.group);
    return openKinds.pop() as number;
  };
  /** Skips a template from its start, or from the end of a `${…}`, to its end or the next `${`. */
  const skipTemplate = (from: number): boolean => {
    for (let each = from; each < length; each++) {
      const code = text.charCodeAt(each);
      if (code === backslash) each++;
      else if (code === backtick) {
        position = each + 1;
        isValue = true;
        word = '';
        return true;
      } else if (code === dollar && text.charCodeAt(each + 1) === curlyOpen) {
        position = each + 1;
        open(curlyClose, ofTemplate, '0');
        position = each + 2;
        isValue = false;
        word = '';
        return true;
      }
    }
    return false;
  };

  if (text.startsWith('#!')) position = endOfLine(text, 0);
  while (position < length) {
    const code = text.charCodeAt(position);
    if (code <= space || code === 0xfeff || code === 0x2028 || code === 0x2029) {
      let next = position;
      let found = code;
      let hasEnded: boolean = isNewLine;
      do {
        if (found === lf || found === cr) hasEnded = true;
        found = text.charCodeAt(++next);
      } while (found <= space);
      isNewLine = hasEnded;
      position = next;
      continue;
    }
    if (code === slash) {
      const next = text.charCodeAt(position + 1);
      if (next === slash) {
        position = endOfLine(text, position);
        continue;
      }
      if (next === star) {
        const end = text.indexOf('*/', position + 2);
        if (end === -1) return uncertain;
        position = end + 2;
        continue;
      }
    }
    if (closed !== -1) {
      const opening = text.charCodeAt(groups.starts[closed] as number);
      if (opening === squareOpen && groups.fills[closed] === '') {
        // `{ [a]() {} }` has a value there; `{ [a]: b }`, `[a]: T` and `[a] = b` may or must not have one.
        if (code === roundOpen) groups.fills[closed] = '0';
        else if (code === colon || code === equals) groups.fills[closed] = undefined;
      }
      // `(a) => …` has parameters rather than a value.
      if (opening === roundOpen && groups.fills[closed] === '0') {
        if (code === equals && text.charCodeAt(position + 1) === greater) groups.fills[closed] = '';
        // `(a): T => …`, or a part of `b ? (a) : c`.
        else if (code === colon) groups.fills[closed] = undefined;
        // `function* (a) { … }`
        else if (code === curlyOpen && isValue) groups.fills[closed] = '';
      }
      closed = -1;
    }
    if (isNameCode(code)) {
      const start = position;
      let next = start + 1;
      for (let each = text.charCodeAt(next); each < 0x80 ? nameCodes[each] === 1 : each > 0; )
        each = text.charCodeAt(++next);
      position = next;
      const size = next - start;
      const found = size >= 2 && size <= 10 && last !== dot ? text.slice(start, position) : '';
      const cost = found === '' ? undefined : keywordCosts.get(found);
      if (found === 'else' || found === 'while') {
        if (chain === 0) chain = before;
      } else if (cost !== costs.operator && (isBlockEnd || (isNewLine && isValue && endsBefore(found))))
        endStatement(start);
      if (cost !== undefined && cost > 0) add(cost);
      if (isFirst && (found === 'function' || found === 'async')) declaration = start;
      else if (word === 'async' && found !== 'function') declaration = -1;
      isFirst = false;
      isValue = cost === undefined || !beforeValue.has(found);
      word = cost === undefined ? 'a' : found;
      isBlockEnd = false;
      isNewLine = false;
      last = 0x61;
      continue;
    }
    const wasBlockEnd = isBlockEnd;
    isBlockEnd = false;
    isNewLine = false;
    isFirst = false;
    switch (code) {
      case quote:
      case apostrophe: {
        const end = endOfString(text, position, code);
        // An apostrophe in the text of a JSX element.
        position = end === -1 ? position + 1 : end;
        isValue = true;
        break;
      }
      case backtick:
        if (isValue) add(costs.operator);
        if (!skipTemplate(position + 1)) return uncertain;
        last = backtick;
        continue;
      case slash: {
        const end = isValue && !wasBlockEnd ? -1 : endOfRegExp(text, position);
        if (end !== -1) {
          position = end;
          isValue = true;
          break;
        }
        if (text.charCodeAt(position + 1) === greater && mayHoldElements) {
          if (elements > 0) elements--;
          position++;
        }
        add(costs.operator);
        position++;
        isValue = false;
        break;
      }
      case roundOpen: {
        const isHead = heads.has(word);
        const isCall = isValue && (word === '' || word === 'a' || callers.has(word));
        const holdsValue = word === '' || isHead || beforeValue.has(word) || word === 'import';
        const isKept = last === at || last === greater || wasBlockEnd || !(isCall || holdsValue);
        if (wasBlockEnd) endStatement(position);
        open(roundClose, isHead || word === 'for' ? ofHead : plain, isKept ? undefined : isCall ? '' : '0');
        position++;
        isValue = false;
        break;
      }
      case squareOpen:
        if (wasBlockEnd) endStatement(position);
        // `a[…]` must not be empty; `const […] = …` must be.
        open(squareClose, plain, isValue && !wasBlockEnd && (word === '' || word === 'a') ? '0' : '');
        position++;
        isValue = false;
        break;
      case curlyOpen: {
        if (wasBlockEnd) endStatement(position);
        const begins = last === equals || last === comma || last === colon || last === question;
        const isObject =
          !isValue && (begins || last === roundOpen || last === squareOpen || last === 0x61) && word !== 'do';
        // `<a b={…}/>` must contain a value.
        open(
          curlyClose,
          isObject && word !== 'else' ? ofValue : plain,
          mayHoldElements && last === equals ? undefined : '',
        );
        position++;
        isValue = false;
        break;
      }
      case roundClose:
      case squareClose:
      case curlyClose: {
        const kind = close(code);
        if (kind === -1) return uncertain;
        if (kind === ofTemplate) {
          if (!skipTemplate(position + 1)) return uncertain;
          last = backtick;
          continue;
        }
        position++;
        isValue = kind !== ofHead;
        isBlockEnd = code === curlyClose && kind === plain;
        if (isBlockEnd) {
          before = chain;
          head = position;
        }
        break;
      }
      case semicolon:
        endStatement(position + 1);
        position++;
        isValue = false;
        break;
      case comma:
        chain = 0;
        before = 0;
        // Commas of `f<A, B>()` are within the statement.
        if (angles === 0) head = position + 1;
        position++;
        isValue = false;
        break;
      case less: {
        const next = text.charCodeAt(position + 1);
        if (next === slash && mayHoldElements) {
          if (elements > 0) elements--;
          position += 2;
          // The rest of the closing tag.
          last = 0x61;
          isValue = true;
          continue;
        }
        if (!isValue && mayHoldElements && (next === greater || isNameCode(next))) elements++;
        else angles++;
        add(0);
        position++;
        isValue = false;
        break;
      }
      case greater:
        if (angles > 0) angles--;
        add(costs.operator);
        position++;
        isValue = false;
        break;
      case equals:
        if (text.charCodeAt(position + 1) === greater) {
          add(costs.arrow);
          position += 2;
          last = colon - 1;
          isValue = false;
          word = '';
          continue;
        }
        add(costs.equals);
        position++;
        isValue = false;
        break;
      case question: {
        const next = text.charCodeAt(position + 1);
        const isShort = next === question || next === dot;
        add(isShort ? costs.dot : costs.question);
        position += isShort ? 2 : 1;
        last = isShort ? next : code;
        isValue = false;
        word = '';
        continue;
      }
      case colon:
      case dot:
        add(code === colon ? costs.colon : costs.dot);
        position++;
        isValue = false;
        break;
      default: {
        add(costs.operator);
        // `a++ / b` and `a! / b`: the value continues.
        const isPostfix =
          isValue &&
          (code === 0x21 || ((code === 0x2b || code === 0x2d) && text.charCodeAt(position + 1) === code));
        position += isPostfix && code !== 0x21 ? 2 : 1;
        isValue = isPostfix && text.charCodeAt(position) !== equals;
      }
    }
    last = code;
    word = '';
  }
  return openCodes.length > 0 ? uncertain : { stackBytes: max, groups };
}

function endOfLine(text: string, from: number): number {
  for (let each = from; each < text.length; each++) {
    const code = text.charCodeAt(each);
    if (code === lf || code === cr || code === 0x2028 || code === 0x2029) return each;
  }
  return text.length;
}

/** The offset after the closing quote; -1 if the line ends first. */
function endOfString(text: string, from: number, delimiter: number): number {
  for (let each = from + 1; each < text.length; each++) {
    const code = text.charCodeAt(each);
    if (code === backslash) {
      if (text.charCodeAt(each + 1) === cr && text.charCodeAt(each + 2) === lf) each++;
      each++;
    } else if (code === delimiter) return each + 1;
    else if (code === lf || code === cr) return -1;
  }
  return -1;
}

/** The offset after the closing slash; -1 if the line ends first. */
function endOfRegExp(text: string, from: number): number {
  let isInClass = false;
  for (let each = from + 1; each < text.length; each++) {
    const code = text.charCodeAt(each);
    if (code === backslash) each++;
    else if (code === lf || code === cr) return -1;
    else if (code === squareOpen) isInClass = true;
    else if (code === squareClose) isInClass = false;
    else if (code === slash && !isInClass) return each + 1;
  }
  return -1;
}

export interface Range {
  readonly start: number;
  readonly end: number;
}

/** A text of the original length: the remaining parts keep their offsets. */
interface Shortened {
  readonly text: string;
  readonly kept: number;
}

/**
 * Blanks bracket groups, unless the group or the statement before it contains a `wanted` offset.
 *
 * @param wanted in ascending order
 * @param whole ranges that are kept in full
 * @param what `declarations`: also blanks the bodies and names of functions; `curly brackets`: only blanks these, the
 *   safest choice
 */
export function shortened(
  text: string,
  groups: Groups,
  wanted: readonly number[],
  whole: readonly Range[],
  what: 'declarations' | 'brackets' | 'curly brackets',
): Shortened {
  const { starts, ends, heads: begins, fills, declarations } = groups;
  const ranges = [...whole].sort((a, b) => a.start - b.start);
  let passed = 0;
  /** The furthest end of the ranges that have begun. */
  let wholeTo = 0;
  const parts: string[] = [];
  let done = 0;
  let kept = text.length;
  for (let index = 0; index < starts.length; index++) {
    const start = starts[index] as number;
    const end = ends[index] as number;
    const fill = fills[index];
    if (start < done || fill === undefined) continue;
    if (what === 'curly brackets' && (fill !== '' || text.charCodeAt(start) !== curlyOpen)) continue;
    for (let range = ranges[passed]; range && range.start <= start; range = ranges[++passed])
      wholeTo = Math.max(wholeTo, range.end);
    if (start < wholeTo) continue;
    const nearest = wanted[firstFrom(wanted, begins[index] as number)];
    if (nearest !== undefined && nearest < end) continue;
    const declaration = what === 'declarations' ? (declarations[index] as number) : -1;
    if (declaration >= done) {
      parts.push(text.slice(done, declaration), ' '.repeat(end + 1 - declaration));
      kept -= end + 1 - declaration;
      done = end + 1;
      continue;
    }
    const blanks = end - start - 1 - fill.length;
    parts.push(text.slice(done, start + 1), fill, ' '.repeat(blanks));
    kept -= blanks;
    done = end;
  }
  parts.push(text.slice(done));
  return { text: parts.join(''), kept };
}

function firstFrom(sorted: readonly number[], from: number): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sorted[middle] as number) < from) low = middle + 1;
    else high = middle;
  }
  return low;
}
