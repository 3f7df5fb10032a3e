import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Node } from 'oxc-parser';
import { eventTypeOf } from '../capture/declare/make-plan.ts';
import { keepOne, subjectOf } from '../capture/report.ts';
import type { DeclaredEvent } from '../capture/source/declared.ts';
import { finder } from '../capture/source/find.ts';
import { parse } from '../capture/source/parse-text.ts';
import {
  type AnyFunction,
  declarationOf,
  isFunction,
  keyOf,
  parameterNames,
  parametersOf,
  walk,
} from '../capture/source/syntax.ts';
import { locate } from '../capture/source/target-files.ts';
import { isProblem } from '../capture/source/wrapper-place.ts';
import { declaredTypes, isTest, spelledOut } from '../catalog/declared.ts';
import { mayMeet, merged, propertiesOf, type Shape, unknownShape } from '../catalog/shape.ts';
import { type Problem, unusedSchemas } from '../config/check/check.ts';
import type { Config } from '../config/config.ts';
import type { TargetConfig } from '../config/schema/target.ts';
import type { PathRule } from '../ground/pii-rule.ts';
import { annotationOf, importedFrom, isAboutSame, isCallOf, type Source } from './calls.ts';

/** A target and its function in the source. */
interface ReadTarget {
  readonly target: TargetConfig;
  readonly eventType: string;
  readonly source: Source;
  readonly node: AnyFunction | undefined;
  /** Targets with the same place capture the same function. */
  readonly place: string;
}

/** Warnings about targets and rules that are valid separately, but probably a mistake together. */
export function doubtsOf(config: Config, declared: readonly DeclaredEvent[]): Problem[] {
  const read = readTargets(config);
  return [
    ...doubledCalls(read),
    ...differentKeys(config, declared),
    ...unusedSchemas(config, declaredTypes(config).types.keys(), areTypesKnown(declared)),
    ...(config.pii.enabled ? unmetRules(config, read, declared) : []),
  ];
}

function readTargets({ targets, baseDir }: Config): ReadTarget[] {
  const sources = new Map<string, ReturnType<typeof readSource>>();
  return targets.flatMap((target): ReadTarget[] => {
    const located = locate(target.module, baseDir);
    if (!('paths' in located)) return [];
    return located.paths.flatMap((file) => {
      if (!sources.has(file)) sources.set(file, readSource(file));
      const source = sources.get(file);
      const found = source?.find(target.function);
      if (source === undefined || found === undefined || isProblem(found)) return [];
      const { shown, parametersOf } = found;
      const node = (parametersOf ?? shown) as AnyFunction | undefined;
      const place = `${file} ${JSON.stringify(found.place)}`;
      return [{ target, eventType: eventTypeOf(target), source, node, place }];
    });
  });
}

/** `undefined`: the file cannot be read, which another check reports. */
function readSource(file: string): (Source & { find: ReturnType<typeof finder> }) | undefined {
  try {
    const text = readFileSync(file, 'utf8');
    const parsed = parse(file, text, { goal: 'unknown', typed: /\.[cm]?tsx?$/.test(file) });
    if (isProblem(parsed)) return undefined;
    return { file, program: parsed.program, find: finder(parsed.program, text) };
  } catch {
    return undefined;
  }
}

// Two events for one call.

function doubledCalls(read: readonly ReadTarget[]): Problem[] {
  const found: Problem[] = [];
  for (const [at, outer] of read.entries())
    for (const [index, inner] of read.entries()) {
      const [a, b] = [outer.target, inner.target];
      if (a === b) continue;
      const name = `svc.targets[${a.index}]`;
      if (at < index && outer.place === inner.place) {
        const message = `${a.id} and ${b.id} name the same function: each call makes two events, ${outer.eventType} and ${inner.eventType}`;
        found.push({ name, message, where: a.where, fix: 'Keep one of them' });
      } else if (outer.place !== inner.place && callsFor(outer, inner)) {
        const message = `${a.id} calls ${b.id}: one call makes two events, ${outer.eventType} and ${inner.eventType}`;
        found.push({ name, message, where: a.where, fix: keepOne });
      }
    }
  return found;
}

/** Whether a function calls another one about the same subject, or returns its result. */
function callsFor({ node, eventType, source }: ReadTarget, inner: ReadTarget): boolean {
  if (node?.body == null) return false;
  const isSame = isAboutSame(eventType, inner.eventType);
  const place = { file: inner.source.file, path: inner.target.function };
  for (const each of walk([node.body])) {
    if (each.type !== 'CallExpression' || !isCallOf(each.callee, source, place)) continue;
    if (isSame || isReturned(node.body, each)) return true;
  }
  return false;
}

function isReturned(body: Node, call: Node): boolean {
  const plain = (node: Node | null): Node | null =>
    node?.type === 'AwaitExpression' ? plain(node.argument) : node;
  if (plain(body) === call) return true;
  return [...walk([body])].some((each) => each.type === 'ReturnStatement' && plain(each.argument) === call);
}

// Keys that differ between events of one aggregate.

interface Keyed {
  readonly eventType: string;
  /** The expression; `undefined`: the event id. */
  readonly key: string | undefined;
  readonly name: string;
  readonly where: string;
}

function differentKeys({ targets, broker, baseDir }: Config, declared: readonly DeclaredEvent[]): Problem[] {
  const groups = new Map<string, Keyed[]>();
  const add = (subject: string, topic: string, one: Keyed): void => {
    if (subject === '') return;
    const id = `${subject}\n${topic}`;
    groups.set(id, [...(groups.get(id) ?? []), one]);
  };
  for (const target of targets) {
    const { key: own, outbox, topic = broker.topic, index, where } = target;
    const key = own ?? outbox?.aggregateId;
    const eventType = eventTypeOf(target);
    const subject = outbox?.aggregateType.toLowerCase() ?? subjectOf(eventType);
    // A function cannot be compared.
    const shown = typeof key === 'function' ? anyKey : key;
    add(subject, topic, { eventType, key: shown, name: `svc.targets[${index}].key`, where });
  }
  for (const { eventType, topic, key, file, line, name } of declared) {
    if (eventType === undefined || topic === undefined || isTest(file)) continue;
    const where = `${resolve(baseDir, file)}:${line}`.replace(`${baseDir}/`, '');
    add(subjectOf(eventType), topic ?? broker.topic, {
      eventType,
      key: key === 'a function' ? anyKey : key,
      name,
      where,
    });
  }
  return [...groups].flatMap(([id, all]): Problem[] => {
    const subject = id.slice(0, id.indexOf('\n'));
    for (const [at, a] of all.entries())
      for (const b of all.slice(at + 1)) {
        if (areAlike(a.key, b.key, subject)) continue;
        const [bare, other] = a.key === undefined ? [a, b] : [b, a];
        const message = `${other.eventType} has the key ${other.key === anyKey ? 'of a function' : other.key}, and ${bare.eventType} ${bare.key ?? 'none'}: Kafka keeps the order of events with the same key only`;
        const fix = `Use the same key for all events about one ${subject}. Ignore this if both keys have the same value`;
        return [{ name: bare.name, message, where: bare.where, fix }];
      }
    return [];
  });
}

const anyKey = '*';

function areAlike(a: string | undefined, b: string | undefined, subject: string): boolean {
  if (a === undefined || b === undefined) return a === b;
  const [one, other] = [namesOfKey(a, subject), namesOfKey(b, subject)];
  return one === undefined || other === undefined || one.some((name) => other.includes(name));
}

/**
 * Names for the value of a key: `#orderId` and `#order.id` are the id of the order, but `#result.id` is the id of the result.
 * `undefined`: the source does not tell.
 */
function namesOfKey(key: string, subject: string): string[] | undefined {
  const plain = key
    .replace(/\s+/g, '')
    .replaceAll('?.', '.')
    .replace(/\.toString\(\)$/, '');
  const chain = /^#?((?:[A-Za-z_$][\w$]*|args\[\d+\])(?:\.[A-Za-z_$][\w$]*)*)$/.exec(plain)?.[1];
  if (chain === undefined) return key === anyKey ? undefined : [plain];
  const names = chain.split('.');
  const last = names.at(-1) ?? '';
  if (/^(?:[pa]\d+|args\[\d+\]|result)$/.test(last)) return undefined;
  const own = `${(subject.split(' ').at(-1) ?? '').toLowerCase()}id`;
  const isOwn = [own, 'id'].includes(last.toLowerCase()) && names[0] !== 'result';
  return isOwn ? ['id', own] : [last.toLowerCase() === own ? own : last];
}

// Rules for personal data that match no field.

function unmetRules(
  config: Config,
  read: readonly ReadTarget[],
  declared: readonly DeclaredEvent[],
): Problem[] {
  const rules = config.pii.fields;
  if (rules.length === 0 && config.targets.every(({ pii = [] }) => pii.length === 0)) return [];
  const shapes = new Map(config.targets.map((target) => [target, shapeOfTarget(target, read)]));
  const targets = new Set(config.targets.map(({ id }) => id));
  const inCode = [...declaredTypes(config).types.values()].filter(
    ({ from }) => !from.every((id) => targets.has(id)),
  );
  const all = [
    ...shapes.values(),
    ...inCode.map(({ payload }) => payload),
    // An unknown payload may have any field.
    ...(areTypesKnown(declared) ? [] : [unknownShape]),
  ];
  const found =
    all.length === 0
      ? []
      : rules.flatMap((rule, index) => unmet(rule, all, `svc.pii.fields[${index}]`, 'any payload'));
  const ofTargets = config.targets.flatMap((target) =>
    (target.pii ?? []).flatMap((rule, index) =>
      unmet(
        rule,
        [shapes.get(target) ?? unknownShape],
        `svc.targets[${target.index}].pii[${index}]`,
        `the payload of ${eventTypeOf(target)}`,
      ).map((each) => ({ ...each, where: target.where })),
    ),
  );
  return [...found, ...ofTargets];
}

/** No event type is computed in code. */
const areTypesKnown = (declared: readonly DeclaredEvent[]): boolean =>
  declared.every(({ eventType, file }) => eventType !== undefined || isTest(file));

function unmet(rule: PathRule, shapes: readonly Shape[], name: string, of: string): Problem[] {
  if (rule.path === '' || shapes.some((shape) => mayMeet(rule, shape))) return [];
  const message = `the path "${rule.path}" matches no field of ${of}, according to the types in the source: the value may be published in clear`;
  return [{ name, message, fix: 'Correct the path or remove it' }];
}

/** The payload's shape according to the types of the target's function. */
function shapeOfTarget(
  { payload, payloadIndex, params, id }: TargetConfig,
  read: readonly ReadTarget[],
): Shape {
  const found = read.filter(({ target }) => target.id === id);
  const [{ node, source } = { node: undefined, source: undefined }, ...more] = found;
  if (typeof payload === 'function' || node === undefined || source === undefined || more.length > 0)
    return unknownShape;
  const names = params ?? parameterNames(node);
  const expression = payload ?? (payloadIndex < 0 ? '#result' : `#p${payloadIndex}`);
  return spelledOut(expression, (tokens) => {
    const steps = tokens.filter(({ text }) => text !== '.' && text !== '?.').map(({ text }) => text);
    const isChain = tokens.every(({ kind, text }, at) =>
      at % 2 === 0 ? kind === 'name' || kind === 'variable' : text === '.' || text === '?.',
    );
    const [first = '', ...rest] = steps;
    if (!isChain) return undefined;
    const position = Number(/^[pa](\d+)$/.exec(first)?.[1] ?? names.lastIndexOf(first));
    const type = first === 'result' ? node.returnType?.typeAnnotation : typeOfParameter(node, position);
    const start = type == null ? unknownShape : shapeOfType(type, source, 0);
    return rest.reduce<Shape | undefined>((shape, name) => shape?.properties?.[name], start);
  });
}

function typeOfParameter(node: AnyFunction, position: number): Node | undefined {
  const each = parametersOf(node)[position];
  const target = each?.type === 'AssignmentPattern' ? each.left : each;
  return target && annotationOf(target);
}

const kindsOfTypes: Readonly<Record<string, Shape>> = {
  TSStringKeyword: { type: ['string'] },
  TSLiteralType: { type: ['string'] },
  TSNumberKeyword: { type: ['number'] },
  TSBigIntKeyword: { type: ['string'] },
  TSBooleanKeyword: { type: ['boolean'] },
  TSNullKeyword: { type: ['null'] },
  TSUndefinedKeyword: { type: ['null'] },
  TSVoidKeyword: { type: ['null'] },
};

const deepestType = 12;

function shapeOfType(type: Node, source: Source, depth: number): Shape {
  const next = (each: Node): Shape => shapeOfType(each, source, depth + 1);
  if (depth > deepestType) return unknownShape;
  if (type.type === 'TSTypeLiteral') return shapeOfMembers(type.members, source, depth);
  if (type.type === 'TSArrayType') return { type: ['array'], items: next(type.elementType) };
  if (type.type === 'TSUnionType') return allOf(type.types.map(next));
  if (type.type === 'TSIntersectionType') return allOf(type.types.map(next));
  if (type.type !== 'TSTypeReference' || type.typeName.type !== 'Identifier')
    return kindsOfTypes[type.type] ?? unknownShape;
  const { name } = type.typeName;
  const [argument] = type.typeArguments?.params ?? [];
  if (argument && /^(?:Promise|Readonly|Required|Partial|NonNullable)$/.test(name)) return next(argument);
  if (argument && /^(?:Array|ReadonlyArray)$/.test(name)) return { type: ['array'], items: next(argument) };
  if (name === 'Date') return { type: ['string'] };
  return argument ? unknownShape : shapeNamed(name, source, depth);
}

/** With an unknown member, the union may have any shape. */
function allOf(shapes: readonly Shape[]): Shape {
  if (shapes.some(({ type }) => type === undefined)) return unknownShape;
  return shapes.reduce(merged, unknownShape);
}

function shapeNamed(name: string, source: Source, depth: number): Shape {
  for (const statement of source.program.body) {
    const declared = declarationOf(statement);
    if (declared.type === 'TSInterfaceDeclaration' && declared.id.name === name)
      return declared.extends.length > 0 ? unknownShape : shapeOfMembers(declared.body.body, source, depth);
    if (declared.type === 'TSTypeAliasDeclaration' && declared.id.name === name)
      return shapeOfType(declared.typeAnnotation, source, depth + 1);
    if (declared.type === 'ClassDeclaration' && declared.id?.name === name)
      return declared.superClass ? unknownShape : shapeOfMembers(declared.body.body, source, depth);
  }
  const imported = importedFrom(name, source);
  const other = imported && readSource(imported.file);
  if (imported === undefined || other === undefined || depth > deepestType) return unknownShape;
  return shapeNamed(imported.path, other, depth + 1);
}

/** A member that is not a plain property, such as `toJSON` or an index signature, may add others. */
function shapeOfMembers(members: readonly Node[], source: Source, depth: number): Shape {
  const entries: [string, Shape][] = [];
  for (const member of members) {
    const isMethod = member.type === 'TSMethodSignature' || member.type === 'MethodDefinition';
    const key =
      'key' in member && member.key
        ? keyOf(member.key as Node, 'computed' in member && member.computed === true)
        : undefined;
    if (key === undefined || key === 'toJSON') return unknownShape;
    if (isMethod && 'kind' in member && member.kind === 'constructor') {
      const held = member.type === 'MethodDefinition' && isFunction(member.value) ? member.value.params : [];
      for (const each of held) {
        if (each.type !== 'TSParameterProperty') continue;
        const target = each.parameter.type === 'AssignmentPattern' ? each.parameter.left : each.parameter;
        if (target.type !== 'Identifier') return unknownShape;
        const type = annotationOf(target);
        entries.push([target.name, type ? shapeOfType(type, source, depth + 1) : unknownShape]);
      }
    }
    if (isMethod) continue;
    const type = annotationOf(member);
    entries.push([key, type ? shapeOfType(type, source, depth + 1) : unknownShape]);
  }
  return { type: ['object'], properties: propertiesOf(entries), isClosed: true };
}
