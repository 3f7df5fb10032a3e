import { type Callable, chainOf, textOf } from '../captured-functions.ts';

/**
 * The parameters of a function by its text, for expressions: `['order', 'options']`. A destructured one has the empty
 * name. `undefined` if the text does not show them: native, bound, or wrapped by other code.
 */
export function parameterNames(fn: Callable): readonly string[] | undefined {
  const text = textOf(chainOf(fn).at(-1) ?? fn).trim();
  if (text.startsWith('class') || text.includes('[native code]')) return undefined;
  const arrow = /^(?:async\s+)?([\p{ID_Start}$_][\p{ID_Continue}$]*)\s*=>/u.exec(text);
  if (arrow?.[1]) return [arrow[1]];
  const open = text.indexOf('(');
  if (open < 0 || text.slice(0, open).includes('[')) return undefined;
  const list = splitTopLevel(text, open + 1);
  return list?.map(nameOf);
}

const pairs: Record<string, string> = { '(': ')', '[': ']', '{': '}' };

/** The texts between the commas of a parameter list that starts at `from`; `undefined` if it cannot be parsed. */
function splitTopLevel(text: string, from: number): string[] | undefined {
  const parts: string[] = [];
  const closers: string[] = [];
  let start = from;
  for (let at = from; at < text.length; at++) {
    const character = text[at] as string;
    const after = skip(text, at);
    if (after !== at) {
      at = after - 1;
    } else if (pairs[character] !== undefined) {
      closers.push(pairs[character]);
    } else if (character === closers.at(-1)) {
      closers.pop();
    } else if (closers.length === 0 && (character === ',' || character === ')')) {
      const part = withoutComments(text.slice(start, at)).trim();
      if (part !== '') parts.push(part);
      if (character === ')') return parts;
      start = at + 1;
    }
  }
  return undefined;
}

/** The end of the string or comment that starts at `at`; else `at`. Ignores regular expressions, which defaults rarely use. */
function skip(text: string, at: number): number {
  const character = text[at];
  if (character === '/' && text[at + 1] === '*') return text.indexOf('*/', at + 2) + 2 || text.length;
  if (character === '/' && text[at + 1] === '/') return text.indexOf('\n', at) + 1 || text.length;
  if (character !== '"' && character !== "'" && character !== '`') return at;
  for (let end = at + 1; end < text.length; end++) {
    if (text[end] === '\\') end++;
    else if (text[end] === character) return end + 1;
  }
  return text.length;
}

function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\/|\/\/[^\n]*/g, '');
}

function nameOf(parameter: string): string {
  const name = /^(?:\.\.\.\s*)?([\p{ID_Start}$_][\p{ID_Continue}$]*)\s*(?:=|$)/u.exec(parameter);
  return name?.[1] ?? '';
}
