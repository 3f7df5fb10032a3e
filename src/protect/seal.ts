import { SvcError } from '../errors.ts';
import { refusal, trusted } from './refusal.ts';

/** The text that a sealer makes of a marked value. Fails closed: throws where there is none, or where it is the value itself. */
export function seal(plain: string, work: () => string): string {
  let text: unknown;
  try {
    text = work();
  } catch (error) {
    if (error instanceof SvcError) throw trusted(error);
    text = undefined;
  }
  if (typeof text === 'string' && text !== plain) return text;
  throw refusal('SVC_PROTECT_NOT_PROTECTED', 'a marked value could not be encrypted or hashed');
}
