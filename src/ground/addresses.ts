import { nodeNet } from './builtins.ts';

/** True for loopback addresses. Unusual spellings of them count as public, which is safe. */
export function isLoopback(address: string): boolean {
  const text = address.toLowerCase();
  if (text === '127.0.0.1' || text === 'localhost' || text === '::1') return true;
  return /^(::ffff:)?127\./.test(text) && nodeNet().isIPv4(text.replace('::ffff:', ''));
}

/** One entry of `svc.security.trusted-proxies`. */
type TrustedProxy =
  | 'unix'
  | { readonly address: string; readonly bits: number | undefined; readonly family: 'ipv4' | 'ipv6' };

export const trustedProxyForm = 'an IP address, a range such as 10.0.0.0/8, or unix';

/** `undefined` for an invalid entry. */
export function readTrustedProxy(entry: string): TrustedProxy | undefined {
  if (entry === 'unix') return 'unix';
  const [address = '', prefix, ...more] = entry.trim().split('/');
  const version = nodeNet().isIP(address);
  const family = version === 6 ? 'ipv6' : 'ipv4';
  if (version === 0 || address.includes('%') || more.length > 0) return undefined;
  if (prefix === undefined) return { address, bits: undefined, family };
  const bits = /^\d{1,3}$/.test(prefix) ? Number(prefix) : Number.POSITIVE_INFINITY;
  return bits > (version === 6 ? 128 : 32) ? undefined : { address, bits, family };
}
