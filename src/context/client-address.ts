import { readTrustedProxy, trustedProxyForm } from '../ground/addresses.ts';
import { nodeNet } from '../ground/builtins.ts';
import { SvcError } from '../ground/errors.ts';
import type { ContextOptions } from './context-options.ts';
import type { ContextScope } from './context-store.ts';
import { rawHeader } from './request/header-value.ts';

/**
 * Reads the address of a request's client, once per request; `null` where it is not known.
 *
 * Without `useForwardedHeaders`, or when the request did not come from a trusted proxy, that is the address of the socket.
 * Else the hops of the header are walked from the last to the first, past trusted proxies: the first one that is not
 * trusted is the client. At a malformed hop the walk stops, and the last good address counts.
 *
 * A client can send either header itself, and a proxy passes on the one that it does not write. So with `auto` and both
 * headers present, both must name the same client, or neither is believed. Name the header that your proxies write.
 */
export function createClientAddressReader(options: ContextOptions): (scope: ContextScope) => string | null {
  const walk = options.useForwardedHeaders === true ? createWalk(options) : undefined;
  return (scope) => {
    if (scope.clientIp === undefined) {
      const peer = socketAddress(scope.remoteAddress);
      scope.clientIp = (scope.request !== null && walk !== undefined ? walk(scope, peer) : peer) ?? null;
    }
    return scope.clientIp;
  };
}

/** More proxies than anybody has; a header full of trusted addresses must not cost milliseconds. */
const maxHopCount = 32;

type Walk = (scope: ContextScope, peer: string | undefined) => string | undefined;

function createWalk(options: ContextOptions): Walk {
  const isTrusted = createTrustedProxies(options.trustedProxies ?? []);
  const header = options.forwardedHeader ?? 'auto';
  return (scope, peer) => {
    if (!isTrusted(peer)) return peer;
    const forwarded = header === 'x-forwarded-for' ? null : rawHeader(scope, 'forwarded');
    const xForwardedFor = header === 'forwarded' ? null : rawHeader(scope, 'x-forwarded-for');
    const first = forwarded === null ? undefined : firstUntrusted(forwardedHops(forwarded), peer, isTrusted);
    if (xForwardedFor === null) return forwarded === null ? peer : first;
    const second = firstUntrusted(xForwardedForHops(xForwardedFor), peer, isTrusted);
    return forwarded === null || first === second ? second : peer;
  };
}

function firstUntrusted(
  hops: Iterable<string>,
  peer: string | undefined,
  isTrusted: IsTrusted,
): string | undefined {
  let known = peer;
  let hopCount = 0;
  for (const hop of hops) {
    const address = ++hopCount > maxHopCount ? null : parseHop(hop);
    if (address === null) return known;
    known = address;
    if (!isTrusted(address)) return address;
  }
  return known;
}

/**
 * Hops of `X-Forwarded-For`, last one first: the last was written by the nearest proxy, the first by whoever liked to.
 * A hop is text to be judged, not yet an address.
 */
export function* xForwardedForHops(header: string): Generator<string> {
  let end = header.length;
  do {
    const comma = end === 0 ? -1 : header.lastIndexOf(',', end - 1);
    yield header.slice(comma + 1, end).trim();
    end = comma;
  } while (end >= 0);
}

/**
 * `for=` of each element of `Forwarded` (RFC 7239), last one first; an element without a readable one yields `''`.
 * It is split from its end, so that a quote left open by the client cannot swallow what a proxy appended.
 */
export function* forwardedHops(header: string): Generator<string> {
  let end = header.length;
  let quoted = false;
  for (let at = header.length - 1; at >= -1; at--) {
    const character = at < 0 ? ',' : header[at];
    if (character === '"') quoted = !quoted;
    else if (character === ',' && (!quoted || at < 0)) {
      yield forOf(header.slice(at + 1, end));
      end = at;
    }
  }
}

const forPair = /^\s*for\s*=\s*(?:"([^"\\]*)"|([^"\\\s]*))\s*$/i;

/** Addresses hold neither semicolons nor escapes, so an element with such a `for` is malformed for our purpose. */
function forOf(element: string): string {
  const found = element.split(';').flatMap((pair) => {
    const match = forPair.exec(pair);
    return match === null ? [] : [match[1] ?? match[2] ?? ''];
  });
  return found.length === 1 ? (found[0] ?? '') : '';
}

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

/** Says whether an address belongs to one of our own proxies; `undefined` stands for a Unix domain socket. */
type IsTrusted = (address: string | undefined) => boolean;

/** Throws `SVC_CONTEXT_BAD_TRUSTED_PROXY` with the entry that is neither an address, nor a CIDR range, nor `unix`. */
export function createTrustedProxies(entries: readonly string[]): IsTrusted {
  const list = new (nodeNet().BlockList)();
  let unixSocket = false;
  for (const entry of entries) {
    const proxy = readTrustedProxy(entry);
    if (proxy === undefined)
      throw new SvcError(
        'SVC_CONTEXT_BAD_TRUSTED_PROXY',
        `trusted proxy "${entry}" is not ${trustedProxyForm}`,
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
