import { isNamedValues } from '../../ground/named-values.ts';
import { describeTyped, type Mistake, orMistakes } from './problem.ts';

/** Names and what stands for each. */
export type Names = Readonly<Record<string, readonly string[]>>;

/** `{ customer: arn:…, old: [a, b] }`, or a text: JSON, or `customer=arn:…,other=…`; and all that is wrong with it. */
export function checkNames(given: unknown): ReturnType<typeof orMistakes<Names>> {
  const value = typeof given === 'string' ? readText(given.trim()) : given;
  if (!isNamedValues(value)) {
    return orMistakes({}, [{ message: 'must be an object of names', got: describeTyped(given) }]);
  }
  const names: Record<string, readonly string[]> = {};
  const mistakes: Mistake[] = [];
  for (const [index, [name, texts]] of Object.entries(value).entries()) {
    const list: readonly unknown[] = Array.isArray(texts) ? texts : [texts];
    if (list.length === 0 || !list.every((text) => typeof text === 'string' && text.trim() !== ''))
      mistakes.push({ message: `says of name ${index + 1} neither a text nor a list of texts` });
    else names[name] = list.map((text) => (text as string).trim());
  }
  return orMistakes(names, mistakes);
}

function readText(text: string): unknown {
  if (text.startsWith('{')) {
    try {
      return JSON.parse(text);
    } catch {
      return undefined;
    }
  }
  const pairs = text.split(',').map((pair) => pair.split(/=(.*)/s, 2));
  return pairs.every((pair) => pair.length === 2) ? Object.fromEntries(pairs) : undefined;
}
