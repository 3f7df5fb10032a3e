import type { BlockList } from 'node:net';
import { nodeNet } from '../builtins.ts';
import { SvcError } from '../errors.ts';

/** Says whether an address belongs to one of our own proxies; `undefined` stands for a Unix domain socket. */
export type IsTrusted = (address: string | undefined) => boolean;

/** Throws `SVC_CONTEXT_BAD_TRUSTED_PROXY` with the entry that is neither an address, nor a CIDR range, nor `unix`. */
export function createTrustedProxies(entries: readonly string[]): IsTrusted {
  const list = new (nodeNet().BlockList)();
  let unixSocket = false;
  for (const entry of entries) {
    if (entry === 'unix') unixSocket = true;
    else addEntry(list, entry);
  }
  return (address) => {
    if (address === undefined) return unixSocket;
    return list.check(address, nodeNet().isIP(address) === 6 ? 'ipv6' : 'ipv4');
  };
}

function addEntry(list: BlockList, entry: string): void {
  const [address = '', prefix, ...more] = entry.trim().split('/');
  const version = nodeNet().isIP(address);
  const family = version === 6 ? 'ipv6' : 'ipv4';
  if (version === 0 || address.includes('%') || more.length > 0) throw notAnEntry(entry);
  if (prefix === undefined) {
    list.addAddress(address, family);
    return;
  }
  const bits = /^\d{1,3}$/.test(prefix) ? Number(prefix) : Number.POSITIVE_INFINITY;
  if (bits > (version === 6 ? 128 : 32)) throw notAnEntry(entry);
  list.addSubnet(address, bits, family);
}

function notAnEntry(entry: string): SvcError {
  const expected = 'an address, a range such as 10.0.0.0/8, or unix';
  return new SvcError('SVC_CONTEXT_BAD_TRUSTED_PROXY', `trusted proxy "${entry}" is not ${expected}`);
}
