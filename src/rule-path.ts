/** One step of a path rule: a key, any one key or element (`*`, `[*]`), or any number of steps (`**`). */
export type PathStep = { readonly key: string } | '*' | '**';

const most = { characters: 512, steps: 32 };
const step =
  /\*\*|\*|\[\*\]|\["((?:[^"\\]|\\.)+)"\]|\['((?:[^'\\]|\\.)+)'\]|[^.[\]*\s'"]+(?: +[^.[\]*\s'"]+)*/y;

/**
 * Takes the path of a rule apart: `customer.email`, `items[*].phone`, `**.ssn`, `rates["a.b"]`; a leading `$.` is allowed.
 *
 * @returns its steps, or what is wrong with it, as the end of a sentence
 */
export function parseRulePath(path: string): readonly PathStep[] | string {
  if (path.length > most.characters) return `must be a path of at most ${most.characters} characters`;
  const text = path.trim().replace(/^\$(\.|(?=\[))/, '');
  const steps: PathStep[] = [];
  let at = 0;
  while (at < text.length) {
    step.lastIndex = at;
    const match = step.exec(text);
    if (match === null) return wrong;
    const [whole, double, single] = match;
    const quoted = double ?? single;
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
  return steps.length > most.steps ? `must be a path of at most ${most.steps} steps` : steps;
}

const wrong = 'must be a path such as customer.email, items[*].phone or **.ssn';
