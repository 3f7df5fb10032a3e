import { SvcError } from '../errors.ts';
import { refusal, trusted } from './refusal.ts';
import type { SealedField, Sealer } from './sealer.ts';

/**
 * The text that a sealer makes of a marked value: encrypted where it is told the field, else hashed. Fails closed: throws where
 * there is none, or where it is the value itself.
 */
export function seal(plain: string, sealer: Sealer, field: SealedField | undefined): string {
  let text: unknown;
  try {
    text = field === undefined ? sealer.hash(plain) : sealer.encrypt(plain, field);
  } catch (error) {
    if (error instanceof SvcError) throw trusted(error);
    text = undefined;
  }
  if (typeof text === 'string' && text !== plain) return text;
  throw refusal('SVC_PROTECT_NOT_PROTECTED', 'a marked value could not be encrypted or hashed');
}
