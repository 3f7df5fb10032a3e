import { isTooBig } from '../ground/bounds.ts';
import type { Budget } from './budget.ts';
import type { ClearTexts } from './clear-texts.ts';
import { partsOf } from './parts-of.ts';

/**
 * Compares all that stands in a value which is left out with the texts that leave in clear. What cannot be read there hides
 * nothing; it may refer to itself, but is refused where it is too large to be compared.
 */
export function compareLeftOut(value: unknown, clear: ClearTexts, budget: Budget): void {
  const seen = new Set<object>();
  const waiting: unknown[] = [value];
  while (waiting.length > 0) {
    const part = waiting.pop();
    if (typeof part === 'object' && part !== null) {
      if (seen.has(part)) continue;
      seen.add(part);
      for (const inner of partsOf(part, budget)) waiting.push(inner);
    } else if (typeof part === 'string' || typeof part === 'number' || isFair(part)) {
      clear.check(String(part));
    }
  }
}

function isFair(part: unknown): boolean {
  return typeof part === 'bigint' && !isTooBig(part);
}
