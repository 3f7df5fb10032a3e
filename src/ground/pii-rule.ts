/** The kind of personal data; it decides what a mask shows. */
export const piiTypes = [
  'NAME',
  'EMAIL',
  'PHONE',
  'ADDRESS',
  'CARD',
  'NATIONAL_ID',
  'ACCOUNT',
  'IP',
  'CUSTOM',
] as const;
export type PiiType = (typeof piiTypes)[number];

export const piiStrategies = ['MASK', 'ENCRYPT', 'HASH', 'EXCLUDE'] as const;
export type PiiStrategy = (typeof piiStrategies)[number];

export const piiLevels = ['WEAK', 'NORMAL', 'STRONG'] as const;
export type PiiLevel = (typeof piiLevels)[number];

export interface FieldRule {
  readonly type: PiiType;
  readonly strategy: PiiStrategy;
  /** For MASK: how much is hidden. */
  readonly level: PiiLevel;
  /** For ENCRYPT: the key; `undefined` is the default key. */
  readonly keyId?: string | undefined;
  /** For MASK: the name of a registered masker, instead of the one for the type. */
  readonly masker?: string | undefined;
}

/** A rule for the values at a path; the empty path is the payload itself. */
export interface PathRule extends FieldRule {
  readonly path: string;
}

/** The configurable parts of a rule. Defaults: the type that the name suggests, MASK, NORMAL. */
export type RuleParts = Partial<FieldRule>;

/**
 * Rules in code: paths (`customer.email`, `**.ssn=NATIONAL_ID:HASH`), objects with a path, or an object of paths. A rule
 * without a path, or a type alone, applies to the whole payload.
 */
export type PiiRules =
  | PiiType
  | RuleParts
  | readonly (string | (RuleParts & { readonly path: string }))[]
  | { readonly [path: string]: PiiType | RuleParts };

const names: readonly (readonly [RegExp, PiiType])[] = [
  [/^ip|ip$|ipaddr/, 'IP'],
  [/mail/, 'EMAIL'],
  [/phone|mobile|^tel|fax/, 'PHONE'],
  [/card|^pan$/, 'CARD'],
  [/iban|account/, 'ACCOUNT'],
  [/ssn|nationalid|passport|taxid|socialsecurity/, 'NATIONAL_ID'],
  [/address|street/, 'ADDRESS'],
  [/name$/, 'NAME'],
];

/** The most likely type of a field by its name: `workEmail` is EMAIL. */
export function typeOfName(field: string): PiiType {
  const bare = field.toLowerCase().replace(/[^a-z]/g, '');
  return names.find(([pattern]) => pattern.test(bare))?.[1] ?? 'CUSTOM';
}

/** One step of a path rule: a key, any one key or element (`*`, `[*]`), or any number of steps (`**`). */
export type PathStep = { readonly key: string } | '*' | '**';

const max = { characters: 512, steps: 32 };
const step =
  /\*\*|\*|\[\*\]|\[\d+\]|\["((?:[^"\\]|\\.)+)"\]|\['((?:[^'\\]|\\.)+)'\]|[^.[\]*\s'"]+(?: +[^.[\]*\s'"]+)*/y;

/**
 * Parses the path of a rule: `customer.email`, `items[*].phone`, `**.ssn`, `rates["a.b"]`; a leading `$.` is allowed. Refuses
 * paths that would protect nothing: numbers of elements, the `#` of expressions.
 * @returns the steps, or the problem as the end of a sentence
 */
export function parseRulePath(path: string): readonly PathStep[] | string {
  if (path.length > max.characters) return `must be a path of at most ${max.characters} characters`;
  const text = path.trim().replace(/^\$(\.|(?=\[))/, '');
  if (/^[$/]$|^[#/]/.test(text)) return wrong;
  const steps: PathStep[] = [];
  const elements: [from: number, to: number][] = [];
  let at = 0;
  while (at < text.length) {
    step.lastIndex = at;
    const match = step.exec(text);
    if (match === null) return wrong;
    const [whole, double, single] = match;
    const quoted = double ?? single;
    if (/^\[?\d+\]?$/.test(whole)) elements.push([at, at + whole.length]);
    if (quoted !== undefined) steps.push({ key: quoted.replace(/\\(.)/g, '$1') });
    else if (whole === '**') steps.push('**');
    else if (whole === '*' || whole === '[*]') steps.push('*');
    else steps.push({ key: whole });
    at += whole.length;
    if (at === text.length) break;
    if (text[at] === '.') at++;
    else if (text[at] !== '[') return wrong;
    if (at === text.length) return wrong;
  }
  if (steps.length === 0) return wrong;
  if (elements.length > 0) return byNumber(text, elements);
  return steps.length > max.steps ? `must be a path of at most ${max.steps} steps` : steps;
}

/** Rules apply to all elements of an array, as their positions vary from call to call. */
function byNumber(text: string, elements: readonly [from: number, to: number][]): string {
  const written = (part: (step: string) => string): string => {
    let path = '';
    let at = 0;
    for (const [from, to] of elements) {
      path += text.slice(at, from).replace(/\.$/, '') + part(text.slice(from, to).replace(/\D/g, ''));
      at = to;
    }
    return path + text.slice(at);
  };
  const asKey = written((number) => `["${number}"]`);
  return `names an element by its number: write ${written(() => '[*]')}, or ${asKey} for the key of an object`;
}

const wrong = 'must be a path such as customer.email, items[*].phone or **.ssn';
