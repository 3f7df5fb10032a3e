import { type PathRule, type PathStep, parseRulePath } from '../../../ground/pii-rule.ts';
import type { KeyFields } from '../../schema/target.ts';
import { printable } from '../problem.ts';

const chain =
  /^#?[A-Za-z_$][\w$]*(?:\?\.|\.[A-Za-z_$][\w$]*|\[(?:\d+|'[^']*'|"[^"]*")\]|\?\.[A-Za-z_$][\w$]*)*$/;
const texts = /'(?:[^']|'')*'|"(?:[^"]|"")*"/g;

/** Which of the key, the aggregate id and the headers of a target would show a marked field in clear, and why. */
export function shownInClear(
  { key, outbox, headers, payload, payloadIndex, params }: KeyFields,
  rules: readonly PathRule[],
): { readonly field: string; readonly message: string }[] {
  const inClear = [
    ['key', key],
    ['outbox.aggregateId', outbox?.aggregateId],
    ...Object.entries(headers ?? {}).map(([name, value]) => [`headers.${name}`, value]),
  ];
  return (inClear as [string, unknown][]).flatMap(([field, value]) => {
    const rule =
      typeof value === 'string' ? ruleOf(value, { payload, payloadIndex, params }, rules) : undefined;
    if (rule === undefined) return [];
    const { path, strategy } = rule;
    const what = path === '' ? 'the rule for the payload' : `the rule for ${path}`;
    // A text in it may be a secret.
    const shown = printable((value as string).replace(texts, "'…'"));
    return [{ field, message: `shows in clear what ${what} protects (${strategy}): "${shown}"` }];
  });
}

/**
 * The rule whose value an expression reads, by whatever method. What cannot be known here, as of functions, is compared at each
 * event.
 */
function ruleOf(
  expression: string,
  { payload, payloadIndex, params }: Pick<KeyFields, 'payload' | 'payloadIndex' | 'params'>,
  rules: readonly PathRule[],
): PathRule | undefined {
  const base =
    payload ?? (payloadIndex === undefined || payloadIndex < 0 ? 'result' : `args[${payloadIndex}]`);
  const sources = typeof base === 'string' ? readsOf(base, params) : [];
  // Of a plain field elsewhere, the value is compared; what is made of a value is not like it any more.
  const isGuessed = typeof base !== 'string' || !chain.test(expression.trim());
  const reads = readsOf(expression, params);
  return rules.find(({ path }) => {
    const steps = path === '' ? [] : parseRulePath(path);
    if (typeof steps === 'string') return false;
    const isNamed = typeof steps[0] === 'object';
    const isDeep = steps[0] === '**' && typeof steps[1] === 'object';
    return reads.some(
      ({ keys }) =>
        (isDeep && covers(steps, keys)) ||
        (isGuessed && isNamed && covers(steps, keys.slice(keys[0] === 'args' ? 2 : 1))) ||
        sources.some(
          (source) =>
            source.keys.every((part, index) => part === keys[index]) &&
            covers(steps, [...source.labels, ...keys.slice(source.keys.length)]),
        ),
    );
  });
}

/** A value that an expression reads. */
interface Read {
  /** From the name of a value of the call on; `anyKey` for one that is computed. */
  readonly keys: readonly string[];
  /** Keys of the maps that it stands in. */
  readonly labels: readonly string[];
}

type Paths = readonly (readonly string[])[];

const anyKey = '*';
const isName = (part = ''): boolean => /^#?[\p{ID_Start}$_]/u.test(part);
const isText = (part = ''): boolean => /^['"]/.test(part);
const bare = (part: string): string => part.replace(/^(['"])(.*)\1$/s, '$2');

/** Whatever it is, it is read to its end: whether it is an expression is checked where it is compiled. */
function readsOf(text: string, params: readonly string[] = []): readonly Read[] {
  // Here, as each start would pay half a millisecond for the classes of Unicode.
  const token =
    /'(?:[^']|'')*'|"(?:[^"]|"")*"|#?[\p{ID_Start}$_][\p{ID_Continue}$]*|\d+(?:\.\d+)?|\?\.|\?:|\?\?|\S/gu;
  const tokens = text.match(token) ?? [];
  const reads: Read[] = [];
  let at = 0;

  function rootOf(name: string): readonly string[] {
    const position = /^[pa](\d+)$/.exec(name)?.[1] ?? String(params.lastIndexOf(name));
    return position === '-1' ? [name] : ['args', position];
  }

  /** Up to the closing symbol, which is taken too. Gives what its operands end in. */
  function sequence(close: string | undefined, labels: readonly string[], element: Paths): Paths {
    const ends: (readonly string[])[] = [];
    let inside = labels;
    for (let isFirst = true; at < tokens.length; isFirst = false) {
      const part = tokens[at++] as string;
      if (part === close) break;
      if (close === '}' && (isFirst || tokens[at - 2] === ',') && tokens[at] === ':') {
        inside = [...labels, bare(part)];
        at++;
      } else if (part === '(') ends.push(...accesses(sequence(')', inside, element), inside, element));
      else if (part === '{') ends.push(...accesses(sequence('}', inside, element), inside, element));
      else if (part === '#this' && element.length > 0) ends.push(...accesses(element, inside, element));
      else if (isName(part)) {
        const isOfElement = element.length > 0 && !part.startsWith('#');
        const start = isOfElement ? append(element, part) : [rootOf(part.replace(/^#/, ''))];
        ends.push(...accesses(start, inside, element));
      } else if (isText(part)) accesses([], inside, element);
    }
    return ends;
  }

  /** What follows a value: properties, elements, methods, projections. */
  function accesses(start: Paths, labels: readonly string[], element: Paths): Paths {
    let paths = start;
    for (;;) {
      const isIndex = tokens[at] === '[' || (tokens[at] === '?.' && tokens[at + 1] === '[');
      const next = tokens[at + 1] ?? '';
      if (isIndex) {
        at += tokens[at] === '[' ? 1 : 2;
        const key = tokens[at] ?? '';
        const isLiteral = tokens[at + 1] === ']' && (isText(key) || /^\d/.test(key));
        sequence(']', labels, element);
        paths = append(paths, isLiteral ? bare(key) : anyKey);
      } else if (tokens[at] !== '.' && tokens[at] !== '?.') break;
      else if ((next === '!' || next === '?') && tokens[at + 2] === '[') {
        at += 3;
        const found = sequence(']', labels, append(paths, '0'));
        if (next === '!') paths = found;
      } else if (isName(next) && tokens[at + 2] === '(') {
        at += 3;
        const getter = /^get([A-Z])(.*)$/.exec(next);
        if (getter !== null) paths = append(paths, `${getter[1]?.toLowerCase()}${getter[2]}`);
        sequence(')', labels, element);
      } else {
        at += 2;
        paths = append(paths, next);
      }
    }
    for (const keys of paths) reads.push({ keys, labels });
    return paths;
  }

  sequence(undefined, [], []);
  return reads;
}

function append(paths: Paths, key: string): Paths {
  return paths.map((keys) => [...keys, key]);
}

/** Whether a rule means the value at these keys, or something that it stands in. */
function covers(steps: readonly PathStep[], keys: readonly string[]): boolean {
  const [step, ...rest] = steps;
  if (step === undefined) return true;
  if (step === '**') return covers(rest, keys) || (keys.length > 0 && covers(steps, keys.slice(1)));
  const [key, ...more] = keys;
  if (key === undefined) return false;
  if (step === '*' || key === anyKey || step.key === key) return covers(rest, more);
  return /^\d+$/.test(key) && covers(steps, more);
}
