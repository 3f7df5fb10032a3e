/** One step of a path rule: a key, any one key or element (`*`, `[*]`), or any number of steps (`**`). */
export type PathStep = { readonly key: string } | '*' | '**';

const most = { characters: 512, steps: 32 };
const step =
  /\*\*|\*|\[\*\]|\[\d+\]|\["((?:[^"\\]|\\.)+)"\]|\['((?:[^'\\]|\\.)+)'\]|[^.[\]*\s'"]+(?: +[^.[\]*\s'"]+)*/y;

/**
 * Takes the path of a rule apart: `customer.email`, `items[*].phone`, `**.ssn`, `rates["a.b"]`; a leading `$.` is allowed.
 * What could only be meant otherwise, and would protect nothing, is refused: numbers of elements, the `#` of expressions.
 *
 * @returns its steps, or what is wrong with it, as the end of a sentence
 */
export function parseRulePath(path: string): readonly PathStep[] | string {
  if (path.length > most.characters) return `must be a path of at most ${most.characters} characters`;
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
  return steps.length > most.steps ? `must be a path of at most ${most.steps} steps` : steps;
}

/** Rules mean all elements of an array, as which one is where changes from call to call. */
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
