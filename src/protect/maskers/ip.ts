import { nodeNet } from '../../ground/builtins.ts';
import type { PiiLevel } from '../../ground/pii-rule.ts';
import { fullMask } from './code-points.ts';

/** WEAK `192.168.1.*` and 3 groups of IPv6, NORMAL `192.168.*.*` and 2 groups, STRONG `****`. */
export function maskIp(text: string, level: PiiLevel): string {
  if (level === 'STRONG' || text.length > 64) return fullMask;
  const address = text.trim().replace(/%.*$/, '');
  const mapped = /^::ffff:(?=\d+\.)/i.exec(address)?.[0] ?? '';
  const v4 = address.slice(mapped.length);
  if (nodeNet().isIPv4(v4)) {
    const parts = v4.split('.');
    return (
      mapped + (level === 'WEAK' ? `${parts.slice(0, 3).join('.')}.*` : `${parts.slice(0, 2).join('.')}.*.*`)
    );
  }
  if (!nodeNet().isIPv6(address)) return fullMask;
  return `${groups(address)
    .slice(0, level === 'WEAK' ? 3 : 2)
    .join(':')}:${fullMask}`;
}

/** `::` filled with its zeros. A dotted end is never among the groups that are shown. */
function groups(address: string): string[] {
  const [head = '', tail] = address.toLowerCase().split('::');
  const before = head === '' ? [] : head.split(':');
  if (tail === undefined) return before;
  const after = tail === '' ? [] : tail.split(':');
  const taken = before.length + after.length + (tail.includes('.') ? 1 : 0);
  return [...before, ...new Array<string>(8 - taken).fill('0'), ...after];
}
