import { nodeNet } from '../builtins.ts';
import { SvcError } from '../errors.ts';
import { readTrustedProxy, trustedProxyRule } from '../trusted-proxy.ts';

/** Says whether an address belongs to one of our own proxies; `undefined` stands for a Unix domain socket. */
export type IsTrusted = (address: string | undefined) => boolean;

/** Throws `SVC_CONTEXT_BAD_TRUSTED_PROXY` with the entry that is neither an address, nor a CIDR range, nor `unix`. */
export function createTrustedProxies(entries: readonly string[]): IsTrusted {
  const list = new (nodeNet().BlockList)();
  let unixSocket = false;
  for (const entry of entries) {
    const proxy = readTrustedProxy(entry);
    if (proxy === undefined)
      throw new SvcError(
        'SVC_CONTEXT_BAD_TRUSTED_PROXY',
        `trusted proxy "${entry}" is not ${trustedProxyRule}`,
      );
    if (proxy === 'unix') unixSocket = true;
    else if (proxy.bits === undefined) list.addAddress(proxy.address, proxy.family);
    else list.addSubnet(proxy.address, proxy.bits, proxy.family);
  }
  return (address) => {
    if (address === undefined) return unixSocket;
    return list.check(address, nodeNet().isIP(address) === 6 ? 'ipv6' : 'ipv4');
  };
}
