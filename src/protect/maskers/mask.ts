// maskers/: what a mask leaves to be seen, a file for each type of data.

import { shared } from '../../ground/lifecycle.ts';
import type { FieldRule, PiiLevel, PiiType } from '../../ground/pii-rule.ts';
import { maskAccount } from './account.ts';
import { maskAddress } from './address.ts';
import { maskCard } from './card.ts';
import { fullMask } from './code-points.ts';
import { maskCustom } from './custom.ts';
import { maskEmail } from './email.ts';
import { maskIp } from './ip.ts';
import { maskName } from './name.ts';
import { maskNationalId } from './national-id.ts';
import { maskPhone } from './phone.ts';

/** Gives the text that may be seen of a value. Synchronous, and called for every value: it should take no longer than a microsecond. */
export type Masker = (text: string, level: PiiLevel) => string;

const builtIn: Readonly<Record<PiiType, Masker>> = {
  NAME: maskName,
  EMAIL: maskEmail,
  PHONE: maskPhone,
  ADDRESS: maskAddress,
  CARD: maskCard,
  NATIONAL_ID: maskNationalId,
  ACCOUNT: maskAccount,
  IP: maskIp,
  CUSTOM: maskCustom,
};

const registered = shared('maskers', () => new Map<string, Masker>());

/**
 * Adds a masker, which rules name with `masker: name`; or replaces the one of a type: `registerMasker('PHONE', …)`.
 *
 * It is not trusted: where it throws, returns anything but a string, or returns a text that holds its input, `****` is
 * published. A rule that names a masker that nobody registered publishes `****` as well.
 */
export function registerMasker(name: string, masker: Masker): void {
  if (typeof name !== 'string' || name === '' || typeof masker !== 'function')
    throw new TypeError('registerMasker needs a name and a function');
  registered.set(name, masker);
}

/** Shows nothing, whatever maskers the application has registered. */
export const wholeMask: FieldRule = {
  type: 'CUSTOM',
  strategy: 'MASK',
  level: 'STRONG',
  keyId: undefined,
  masker: undefined,
};

/** What may be seen of a value. Never the value itself, whatever it is. */
export function mask(text: string, rule: FieldRule): string {
  if (rule === wholeMask) return differing(text, fullMask);
  const masker = registered.size === 0 ? undefined : registered.get(rule.masker ?? rule.type);
  if (masker !== undefined) return maskOwn(masker, text, rule.level);
  if (rule.masker !== undefined) return differing(text, fullMask);
  return differing(text, builtIn[rule.type](text, rule.level));
}

function maskOwn(masker: Masker, text: string, level: PiiLevel): string {
  try {
    const masked: unknown = masker(text, level);
    if (typeof masked === 'string' && masked !== text && (text === '' || !masked.includes(text)))
      return masked;
    if (masked instanceof Promise) masked.catch(() => {});
  } catch {
    // Its message may hold the value.
  }
  return differing(text, fullMask);
}

function differing(text: string, masked: string): string {
  if (masked !== text) return masked;
  return text === fullMask ? '***' : fullMask;
}
