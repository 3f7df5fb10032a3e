import type { ContextOptions } from './context-options.ts';
import type { ContextScope } from './context-store.ts';
import { forwardedHops, xForwardedForHops } from './forwarded-header.ts';
import { rawHeader } from './header-value.ts';
import { parseHop, socketAddress } from './ip-address.ts';
import { createTrustedProxies, type IsTrusted } from './trusted-proxies.ts';

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
