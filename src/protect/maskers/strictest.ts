import type { FieldRule } from '../../ground/pii-rule.ts';
import { wholeMask } from './mask.ts';

/**
 * What holds for a value that several rules mean: it is left out where one of them says so, and shows nothing where they differ.
 * `isWhole`: the value is only a part of the text, so that a mask would show what stands around it in its place.
 */
export function strictest(rules: readonly FieldRule[], isWhole: boolean): FieldRule | undefined {
  const [first] = rules;
  if (first === undefined) return undefined;
  const excluding = rules.find(({ strategy }) => strategy === 'EXCLUDE');
  if (excluding !== undefined) return excluding;
  if (!rules.every((rule) => doesTheSame(rule, first))) return wholeMask;
  return isWhole && first.strategy === 'MASK' ? wholeMask : first;
}

function doesTheSame(one: FieldRule, other: FieldRule): boolean {
  if (one === other) return true;
  if (one.strategy !== other.strategy) return false;
  switch (one.strategy) {
    case 'MASK':
      return one.type === other.type && one.level === other.level && one.masker === other.masker;
    case 'ENCRYPT':
      return one.keyId === other.keyId;
    default:
      return true;
  }
}
