// context/: the request in which a call was made.

import type { Context } from '@opentelemetry/api';
import type { Origin } from '../envelope/envelope.ts';
import { readTrustedProxy, trustedProxyForm } from '../ground/addresses.ts';
import { nodeNet } from '../ground/builtins.ts';
import { SvcError } from '../ground/errors.ts';
import { runOwnWork } from '../ground/lifecycle.ts';
import { logger } from '../observe/logger.ts';
import { otelApi } from '../observe/otel-api.ts';
import {
  boundedText,
  type ContextOptions,
  type ContextScope,
  type ContextStore,
  createCorrelationReader,
  currentStore,
  percentDecoded,
  requestHeader,
  requestObject,
  scalarText,
} from './context-store.ts';

type Tags = Origin['tags'];

/** The current actor, client and tags. `active`: the OpenTelemetry context of the call; default: the active one. */
type ReadOrigin = (active?: Context) => Origin;

const nobody: Origin = Object.freeze({
  userId: null,
  sessionId: null,
  correlationId: null,
  clientIp: null,
  tags: null,
});

/**
 * Headers are parsed once per request, for the first event; without a context the answer is a constant. Consecutive
 * events of one request get the same object, so that it is serialized once.
 */
export function createOriginReader(options: ContextOptions = {}): ReadOrigin {
  const readUserId = createActorReader('userId', options.userId);
  const readSessionId = createActorReader('sessionId', options.sessionId);
  const readCorrelationId = createCorrelationReader(options);
  const readClientIp = createClientAddressReader(options);
  const tagNames = (options.baggageTags ?? []).filter((name) => name !== '__proto__');
  const needsRequest =
    tagNames.length === 0 && !canAnswerOutside(options.userId) && !canAnswerOutside(options.sessionId);

  let last = nobody;

  return (active) => {
    const store = currentStore();
    if (store === undefined && needsRequest) return nobody;
    const added = store?.added ?? null;
    const userId = added?.userId;
    const sessionId = added?.sessionId;
    const correlationId = added?.correlationId;
    return theSame({
      userId: userId !== undefined ? userId : readUserId(store, active),
      sessionId: sessionId !== undefined ? sessionId : readSessionId(store, active),
      correlationId:
        correlationId !== undefined
          ? correlationId
          : store === undefined
            ? null
            : readCorrelationId(store.scope),
      clientIp: store === undefined ? null : readClientIp(store.scope),
      tags:
        tagNames.length === 0
          ? (added?.tags ?? null)
          : withBaggage(added?.tags ?? null, store?.scope, active),
    });
  };

  function theSame(origin: Origin): Origin {
    const isSame =
      origin.userId === last.userId &&
      origin.sessionId === last.sessionId &&
      origin.correlationId === last.correlationId &&
      origin.clientIp === last.clientIp &&
      origin.tags === last.tags;
    if (!isSame) last = origin;
    return last;
  }

  /** Tags of the application have priority over baggage. */
  function withBaggage(own: Tags, scope: ContextScope | undefined, active: Context | undefined): Tags {
    let tags: Record<string, string> | null = null;
    for (const name of tagNames) {
      const value = baggageEntry(name, scope, active);
      if (value !== null) {
        tags ??= {};
        tags[name] = value;
      }
    }
    return tags === null ? own : { ...tags, ...own };
  }
}

/** Functions and OpenTelemetry's baggage may have a value outside requests. */
function canAnswerOutside(sources: ContextOptions['userId']): boolean {
  if (sources === undefined) return false;
  const list = Array.isArray(sources) ? sources : [sources];
  return list.some((source) => typeof source === 'function' || source.startsWith('baggage:'));
}

type ReadActor = (store: ContextStore | undefined, active: Context | undefined) => string | null;

/** Throws `SVC_CONTEXT_BAD_ACTOR_SOURCE` for a text in none of the three forms. */
function createActorReader(field: string, sources: ContextOptions['userId']): ReadActor {
  const list = sources === undefined ? [] : [sources].flat();
  const readers = list.map((source) =>
    typeof source === 'function' ? fromFunction(field, source) : fromText(field, source),
  );
  if (readers.length === 1) return readers[0] as ReadActor;
  return (store, active) => {
    for (const read of readers) {
      const value = read(store, active);
      if (value !== null) return value;
    }
    return null;
  };
}

function fromText(field: string, source: string): ReadActor {
  const colon = source.indexOf(':');
  const kind = source.slice(0, colon);
  const name = source.slice(colon + 1);
  if (kind === 'header') {
    const header = requestHeader.nameOf(name);
    return (store) => (store === undefined ? null : requestHeader.value(store.scope, header));
  }
  if (kind === 'baggage' && name !== '') return (store, active) => baggageEntry(name, store?.scope, active);
  const path = name.split('.');
  if (kind === 'request' && path.every((step) => step !== '' && !(step in Object.prototype))) {
    return (store) => {
      const request = requestObject(store?.scope);
      return request === undefined ? null : boundedText(readPath(request, path));
    };
  }
  const forms = 'header:<name>, baggage:<name> or request:<property path>';
  throw new SvcError('SVC_CONTEXT_BAD_ACTOR_SOURCE', `${field}: "${source}" is not ${forms}`);
}

function fromFunction(field: string, source: (request: unknown) => unknown): ReadActor {
  let told = false;
  return (store) => {
    try {
      return runOwnWork(() => scalarText(source(requestObject(store?.scope))));
    } catch {
      if (!told) logger.warn(`the function that provides ${field} threw an error: events carry null`);
      told = true;
      return null;
    }
  };
}

/**
 * Reads the client address of a request, once per request; `null` if unknown.
 *
 * It is the address of the socket without `useForwardedHeaders`, or if the request did not come from a trusted proxy.
 * Otherwise the hops of `forwardedHeader` are read from last to first: the first one that is not a trusted proxy is the
 * client. A malformed hop ends the search, and the last valid address counts.
 *
 * A client can send any header, and a proxy passes on those that it does not write: only the configured one is read.
 */
function createClientAddressReader(options: ContextOptions): (scope: ContextScope) => string | null {
  const walk = options.useForwardedHeaders === true ? createWalk(options) : undefined;
  return (scope) => {
    if (scope.clientIp === undefined) {
      const peer = socketAddress(scope.remoteAddress);
      scope.clientIp = (scope.request !== null && walk !== undefined ? walk(scope, peer) : peer) ?? null;
    }
    return scope.clientIp;
  };
}

/** More than any real chain of proxies: a header full of trusted addresses must not cost milliseconds. */
const maxHopCount = 32;

type Walk = (scope: ContextScope, peer: string | undefined) => string | undefined;

function createWalk(options: ContextOptions): Walk {
  const proxies = createTrustedProxies(options.trustedProxies ?? []);
  const header = requestHeader.nameOf(options.forwardedHeader ?? usualHeader);
  const hopsOf = header === 'forwarded' ? forwardedHops : addressHops;
  const others = ['x-forwarded-for', 'forwarded'].filter((name) => name !== header);
  let isTold = false;
  return (scope, peer) => {
    const isTrusted = peer === undefined ? scope.isThroughPipe && proxies.trustsPipes : proxies.trusts(peer);
    if (!isTrusted) return peer;
    const value = requestHeader.raw(scope, header);
    if (value !== null) return firstUntrusted(hopsOf(value), peer, proxies.trusts);
    const other = isTold ? undefined : others.find((name) => requestHeader.raw(scope, name) !== null);
    if (other !== undefined) {
      isTold = true;
      logger.warn(
        `a request through a trusted proxy has the header ${other} and no ${header}. Events name the proxy as the client. If your proxies write ${other}, set svc.security.forwarded-header: ${other}`,
      );
    }
    return peer;
  };
}

const usualHeader = 'x-forwarded-for';

function firstUntrusted(
  hops: Iterable<string>,
  peer: string | undefined,
  isTrusted: (address: string) => boolean,
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
 * Hops of `X-Forwarded-For`, or the only one of a header such as `CF-Connecting-IP`, last one first. The nearest proxy
 * wrote the last, and any client may forge the first. Hops are not validated.
 */
function* addressHops(header: string): Generator<string> {
  let end = header.length;
  do {
    const comma = end === 0 ? -1 : header.lastIndexOf(',', end - 1);
    yield header.slice(comma + 1, end).trim();
    end = comma;
  } while (end >= 0);
}

/**
 * `for=` of each element of `Forwarded` (RFC 7239), last one first; `''` for an unreadable one. Split from its end, so
 * that an unclosed quote from the client cannot hide what a proxy appended.
 */
function* forwardedHops(header: string): Generator<string> {
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

/** Addresses contain neither semicolons nor escapes: an element with such a `for` counts as malformed. */
function forOf(element: string): string {
  const found = element.split(';').flatMap((pair) => {
    const match = forPair.exec(pair);
    return match === null ? [] : [match[1] ?? match[2] ?? ''];
  });
  return found.length === 1 ? (found[0] ?? '') : '';
}

const mapped = '::ffff:';
const withPort = /^(?:\[([^\]]*)\]|([^:]*))(?::\d{1,5})?$/;

/** The address of a socket, without the zone of a link-local one, and IPv4 in its own notation. `undefined`: unknown. */
function socketAddress(remoteAddress: string | undefined): string | undefined {
  if (remoteAddress === undefined) return undefined;
  const zone = remoteAddress.indexOf('%');
  return unmapped(zone < 0 ? remoteAddress : remoteAddress.slice(0, zone));
}

/** One hop of a forwarding header: an IP address, with or without a port, in canonical form. `null` for anything else. */
function parseHop(hop: string): string | null {
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

/** Throws `SVC_CONTEXT_BAD_TRUSTED_PROXY` for an entry that is not an address, a CIDR range or `unix`. */
function createTrustedProxies(entries: readonly string[]) {
  const list = new (nodeNet().BlockList)();
  let trustsPipes = false;
  for (const entry of entries) {
    const proxy = readTrustedProxy(entry);
    if (proxy === undefined)
      throw new SvcError(
        'SVC_CONTEXT_BAD_TRUSTED_PROXY',
        `trusted proxy "${entry}" is not ${trustedProxyForm}`,
      );
    if (proxy === 'unix') trustsPipes = true;
    else if (proxy.bits === undefined) list.addAddress(proxy.address, proxy.family);
    else list.addSubnet(proxy.address, proxy.bits, proxy.family);
  }
  const trusts = (address: string): boolean =>
    list.check(address, nodeNet().isIP(address) === 6 ? 'ipv6' : 'ipv4');
  return { trusts, trustsPipes };
}

/** Reads a path such as `user.id`. `undefined` if a step is missing, throws, or is a name that every object has. */
function readPath(from: object, names: readonly string[]): unknown {
  let value: unknown = from;
  try {
    for (const name of names) {
      if (typeof value !== 'object' || value === null || name in Object.prototype) return undefined;
      value = (value as Record<string, unknown>)[name];
    }
  } catch {
    return undefined;
  }
  return value;
}

/** One baggage entry, from OpenTelemetry's context or else the W3C `baggage` header. `null` if missing or unfit. */
function baggageEntry(
  name: string,
  scope: ContextScope | undefined,
  active: Context | undefined,
): string | null {
  const api = otelApi();
  const baggage = api?.propagation.getBaggage(active ?? api.context.active());
  if (baggage !== undefined) return boundedText(baggage.getEntry(name)?.value);
  const header = scope === undefined ? null : requestHeader.raw(scope, 'baggage');
  return header === null ? null : boundedText(entryOfHeader(header, name));
}

/** Finds a name in `name=value;property, …`: the first match counts; values are percent-encoded. */
function entryOfHeader(header: string, name: string): string | null {
  for (const member of header.split(',')) {
    const equals = member.indexOf('=');
    if (equals < 0 || member.slice(0, equals).trim() !== name) continue;
    const semicolon = member.indexOf(';', equals);
    return percentDecoded(member.slice(equals + 1, semicolon < 0 ? undefined : semicolon).trim());
  }
  return null;
}
