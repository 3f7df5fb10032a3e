import type { Context } from '@opentelemetry/api';
import { SvcError } from '../ground/errors.ts';
import { runOwnWork } from '../ground/lifecycle.ts';
import type { Logger } from '../observe/logger.ts';
import { baggageEntry } from './baggage.ts';
import type { ActorSource } from './context-options.ts';
import type { ContextStore } from './context-store.ts';
import { boundedText, headerValue, scalarText, toHeaderName } from './request/header-value.ts';
import { readPath, requestObject } from './request/request-object.ts';

export type ReadActor = (store: ContextStore | undefined, active: Context | undefined) => string | null;

/** Throws `SVC_CONTEXT_BAD_ACTOR_SOURCE` for a text that is none of the three forms. */
export function createActorReader(
  field: string,
  sources: ActorSource | readonly ActorSource[] | undefined,
  logger?: Logger,
): ReadActor {
  const list = sources === undefined ? [] : Array.isArray(sources) ? sources : [sources as ActorSource];
  const readers = list.map((source: ActorSource) =>
    typeof source === 'function' ? fromFunction(field, source, logger) : fromText(field, source),
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
    const header = toHeaderName(name);
    return (store) => (store === undefined ? null : headerValue(store.scope, header));
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

function fromFunction(
  field: string,
  source: Exclude<ActorSource, string>,
  logger: Logger | undefined,
): ReadActor {
  let told = false;
  return (store) => {
    try {
      return runOwnWork(() => scalarText(source(requestObject(store?.scope))));
    } catch {
      if (!told) logger?.warn(`the function that provides ${field} threw: events carry null`);
      told = true;
      return null;
    }
  };
}
