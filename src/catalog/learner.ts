import { join } from 'node:path';
import type { Config } from '../config/config.ts';
import { readSource } from '../context/source.ts';
import type { Catalog, CatalogEvent } from './catalog-file.ts';
import type { DeclaredTypes } from './declared/declared-events.ts';
import { madeCatalog, seenIn } from './made-catalog.ts';
import { type Budget, heldBack, learned, newBudget, newPlace, type Place, see } from './shape/learn.ts';
import { unknownShape } from './shape/shape.ts';
import { isObject } from './shape/written.ts';

/** Learns how payloads look from real events. It keeps no value. `left out`: of another service, or of a type that looks like data. */
export interface Learner {
  learn(topic: string, contentType: string | undefined, value: unknown): 'learned' | 'left out' | 'no event';
  /**
   * What the application is now: it may be changed meanwhile.
   *
   * @throws CatalogError
   */
  use(application: Application): void;
  /** With all that was learned so far. */
  catalog(): Catalog;
  /** Event types that were seen. */
  seen(): number;
  /** Names that may be data, and are not in the catalog yet. */
  heldBack(): number;
}

/** What reading shows of an application. */
export interface Application {
  readonly config: Config;
  readonly declared: DeclaredTypes;
  /** Whether its sources have this word. */
  readonly isWord: (name: string) => boolean;
}

interface Seen {
  readonly payload: Place;
  readonly budget: Budget;
  readonly topics: Set<string>;
  readonly contentType: string;
}

/** Types that nothing declares: more of them are made at run time, and no types. */
const mostUndeclared = 1_000;
const typeLike = /^(?!.*\d{4})[A-Za-z][\w.:/-]{0,99}$/;

/** @throws CatalogError where the configuration names a schema that is none */
export function createLearner(first: Application, before: Catalog): Learner {
  let application = first;
  let known = madeCatalog(first.declared, first.config, before);
  const { service: given, baseDir } = first.config;
  const service = readSource({ ...given, entry: join(baseDir, 'package.json') }).serviceName;
  const all = new Map<string, Seen>();
  let undeclaredCount = 0;

  function seenOf(eventType: string, topic: string, contentType: string): Seen | undefined {
    let seen = all.get(eventType);
    if (seen === undefined) {
      if (!known.has(eventType) && ++undeclaredCount > mostUndeclared) return undefined;
      seen = { payload: newPlace(), budget: newBudget(), topics: new Set(), contentType };
      all.set(eventType, seen);
    }
    seen.topics.add(topic);
    return seen;
  }

  const shapeBefore = (eventType: string) => known.get(eventType)?.payload ?? unknownShape;

  function eventWith(eventType: string, { payload, topics, contentType }: Seen): CatalogEvent {
    const event = known.get(eventType) ?? {
      from: [],
      topics: [],
      contentType,
      keys: [],
      payload: unknownShape,
    };
    const declared = application.declared.types.get(eventType);
    const knownTopics = declared !== undefined && declared.topics.length > 0;
    const found = knownTopics ? event.topics : [...new Set([...event.topics, ...topics])].sort();
    return {
      ...event,
      from: declared === undefined ? found.map(seenIn) : event.from,
      topics: found,
      payload: learned(payload, event.payload, application.isWord),
    };
  }

  return {
    learn(topic, contentType = 'application/json', value) {
      if (!isObject(value) || !isObject(value.payload)) return 'no event';
      const { eventId, eventType, metadata, payload } = value;
      if (typeof eventId !== 'string' || typeof eventType !== 'string' || !isObject(metadata))
        return 'no event';
      const { serviceName = null } = isObject(metadata.source) ? metadata.source : {};
      const isOwn = serviceName === null || service === null || serviceName === service;
      if (!known.has(eventType) && !(isOwn && typeLike.test(eventType))) return 'left out';
      const seen = seenOf(eventType, topic, contentType);
      if (seen === undefined) return 'left out';
      see(seen.payload, payload, shapeBefore(eventType), seen.budget);
      return 'learned';
    },
    use(next) {
      application = next;
      known = madeCatalog(next.declared, next.config, before);
    },
    catalog() {
      const { declared, config } = application;
      const after = new Map(known);
      for (const [eventType, seen] of all) after.set(eventType, eventWith(eventType, seen));
      return madeCatalog(declared, config, after);
    },
    seen: () => all.size,
    heldBack: () =>
      [...all].reduce(
        (sum, [type, { payload }]) => sum + heldBack(payload, shapeBefore(type), application.isWord),
        0,
      ),
  };
}
