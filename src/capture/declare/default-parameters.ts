import { parseExpression } from '../expression/compile.ts';

/**
 * The parameters with a default that expressions name. An expression sees what the caller gave: the default is made inside
 * the function. `defaulted`: positions.
 */
export function defaultsUsed(
  expressions: readonly string[],
  names: readonly string[],
  defaulted: readonly number[],
): string[] {
  const used = new Set(expressions.flatMap(namesIn));
  return defaulted
    .filter((index) => [names[index] || undefined, `p${index}`, `a${index}`].some((name) => used.has(name)))
    .map((index) => names[index] || `p${index}`);
}

/** For the report of `svc check`. */
export function defaultsNote(parameters: readonly string[]): string {
  const [one, ...more] = parameters;
  const subject =
    more.length > 0 ? `parameters ${parameters.join(', ')} have defaults` : `parameter ${one} has a default`;
  return `${subject} that expressions do not see: undefined where the caller leaves it out`;
}

function namesIn(text: string): (string | undefined)[] {
  try {
    const positions = [...text.matchAll(/\bargs\s*\[\s*(\d+)\s*\]/g)].map(([, index]) => `p${index}`);
    return [...parseExpression(text).variables, ...positions];
  } catch {
    // Said elsewhere, with the column.
    return [];
  }
}
