import { findDeclared } from '../../capture/source/declared/declared.ts';
import {
  type DeclaredEvent,
  type SpelledObject,
  type SpelledValue,
  spelledByText,
} from '../../capture/source/declared/declared-event.ts';
import { checkRulesOf } from '../../config/check/pii-rules.ts';
import type { Config } from '../../config/config.ts';
import type { TargetConfig } from '../../config/schema/target.ts';
import type { PathRule } from '../../ground/pii-rule.ts';
import { eventTypeOf } from '../../start/plans.ts';
import { merged, propertiesOf, type Shape, unknownShape } from '../shape/shape.ts';
import { isTest } from './source-words.ts';
import { spelledOut } from './spelled-out.ts';

/** An event type, as configuration and code declare it in one place or in several. */
export interface Declared {
  readonly from: readonly string[];
  readonly topics: readonly string[];
  /** Expressions; none: the id of the event. */
  readonly keys: readonly string[];
  readonly payload: Shape;
  /** Its own; those for all events follow. */
  readonly rules: readonly PathRule[];
}

export interface DeclaredTypes {
  readonly types: ReadonlyMap<string, Declared>;
  /** Places whose event type, or topic, is known at run time only. */
  readonly unknown: readonly string[];
}

/** All event types that reading finds. */
export function declaredTypes(config: Config): DeclaredTypes {
  const types = new Map<string, Declared>();
  const unknown: string[] = [];
  const add = (eventType: string, one: Declared): void => {
    const known = types.get(eventType);
    types.set(eventType, known === undefined ? one : together(known, one));
  };
  for (const target of config.targets) add(eventTypeOf(target), ofTarget(target, config));
  for (const event of findDeclared(config.baseDir).events) {
    const { eventType, topic, file, line } = event;
    if (isTest(file)) continue;
    if (eventType === undefined || topic === undefined) unknown.push(`${file}:${line}`);
    if (eventType !== undefined) add(eventType, ofCode(event, config));
  }
  return { types, unknown };
}

function together(a: Declared, b: Declared): Declared {
  // Where one of them is not known, the other is not all there is.
  const payload = merged(open(a.payload, b.payload), open(b.payload, a.payload));
  return {
    from: union(a.from, b.from),
    topics: union(a.topics, b.topics),
    keys: union(a.keys, b.keys),
    payload,
    rules: [...a.rules, ...b.rules],
  };
}

function open(shape: Shape, other: Shape): Shape {
  const { isClosed: _, ...rest } = shape;
  return other.isClosed ? shape : rest;
}

const union = (a: readonly string[], b: readonly string[]): string[] => [...new Set([...a, ...b])].sort();

function ofTarget(target: TargetConfig, { broker }: Config): Declared {
  const { payload, key, outbox, pii, id } = target;
  const keyed = key ?? outbox?.aggregateId;
  return {
    from: [id],
    topics: [target.topic ?? broker.topic],
    keys: keyed === undefined ? [] : [typeof keyed === 'string' ? keyed : 'a function'],
    payload: ofExpression(payload),
    rules: pii ?? [],
  };
}

function ofCode({ file, name, topic, key, payload, pii }: DeclaredEvent, { broker }: Config): Declared {
  const spelled = typeof payload === 'string' ? spelledOut(payload) : payload && shapeOf(payload);
  return {
    from: [`${file}#${name}`],
    topics: topic === undefined ? [] : [topic ?? broker.topic],
    keys: key === undefined ? [] : [key],
    payload: spelled ?? unknownShape,
    rules: rulesOf(pii),
  };
}

function ofExpression(payload: TargetConfig['payload']): Shape {
  if (typeof payload === 'string') return spelledOut(payload);
  const spelled = typeof payload === 'function' ? spelledByText(payload.toString()) : undefined;
  return spelled === undefined ? unknownShape : shapeOf(spelled);
}

/** What is wrong with them the application is told when it starts. */
function rulesOf(pii: unknown): readonly PathRule[] {
  const checked = pii === undefined ? undefined : checkRulesOf(pii, true);
  return checked?.ok ? checked.value : [];
}

function shapeOf({ properties, isWhole }: SpelledObject): Shape {
  return {
    type: ['object'],
    properties: propertiesOf(Object.entries(properties).map(([name, value]) => [name, shapeOfValue(value)])),
    ...(isWhole && { isClosed: true }),
  };
}

function shapeOfValue(value: SpelledValue): Shape {
  if (value === 'unknown') return unknownShape;
  return typeof value === 'string' ? { type: [value] } : shapeOf(value);
}
