import { nodeNet } from '../builtins.ts';

const mapped = '::ffff:';
const withPort = /^(?:\[([^\]]*)\]|([^:]*))(?::\d{1,5})?$/;

/** The address of a socket: without the zone of a link-local one, and IPv4 written as IPv4. `undefined`: not known. */
export function socketAddress(remoteAddress: string | undefined): string | undefined {
  if (remoteAddress === undefined) return undefined;
  const zone = remoteAddress.indexOf('%');
  return unmapped(zone < 0 ? remoteAddress : remoteAddress.slice(0, zone));
}

/**
 * One hop of a forwarding header: IPv4 or IPv6, with or without a port, in its shortest spelling.
 * `null` for everything else, `unknown` and obfuscated names among them.
 */
export function parseHop(hop: string): string | null {
  let address = hop;
  if (nodeNet().isIP(address) === 0) {
    const match = withPort.exec(hop);
    address = match?.[1] ?? match?.[2] ?? '';
  }
  const version = address.includes('%') ? 0 : nodeNet().isIP(address);
  if (version === 4) return address;
  return version === 6 ? unmapped(new (nodeNet().SocketAddress)({ address, family: 'ipv6' }).address) : null;
}

function unmapped(address: string): string {
  const rest = address.startsWith(mapped) ? address.slice(mapped.length) : '';
  return nodeNet().isIP(rest) === 4 ? rest : address;
}
