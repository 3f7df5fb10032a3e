import { nodeNet } from './builtins.ts';

/** True for addresses that only this machine can reach. Unusual spellings of them count as others: the safe side. */
export function isLoopback(address: string): boolean {
  const text = address.toLowerCase();
  if (text === '127.0.0.1' || text === 'localhost' || text === '::1') return true;
  return /^(::ffff:)?127\./.test(text) && nodeNet().isIPv4(text.replace('::ffff:', ''));
}
