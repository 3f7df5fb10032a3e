// context/: what is known about the request that a call was made in.

import type { Context } from '@opentelemetry/api';
import type { Origin } from '../envelope/envelope.ts';
import { createActorReader } from './actor.ts';
import { baggageEntry } from './baggage.ts';
import { createClientAddressReader } from './client-address.ts';
import type { ContextOptions } from './context-options.ts';
import { type ContextScope, currentStore } from './context-store.ts';
import { createCorrelationReader } from './correlation-id.ts';

type Tags = Origin['tags'];

/** Who and where from, at this moment. `active`: the OpenTelemetry context of the call; default: the active one. */
export type ReadOrigin = (active?: Context) => Origin;

const nobody: Origin = Object.freeze({
  userId: null,
  sessionId: null,
  correlationId: null,
  clientIp: null,
  tags: null,
});

/**
 * Headers are parsed when an event asks for them, once per request; outside of any context the answer is a constant. Events of one
 * request that follow each other get the same object, so that its text is made once.
 */
export function createOriginReader(options: ContextOptions = {}): ReadOrigin {
  const readUserId = createActorReader('userId', options.userId, options.logger);
  const readSessionId = createActorReader('sessionId', options.sessionId, options.logger);
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

  /** What the application says counts more than what came over the wire. */
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

/** Functions and OpenTelemetry's baggage can know something where there is no request. */
function canAnswerOutside(sources: ContextOptions['userId']): boolean {
  if (sources === undefined) return false;
  const list = Array.isArray(sources) ? sources : [sources];
  return list.some((source) => typeof source === 'function' || source.startsWith('baggage:'));
}
