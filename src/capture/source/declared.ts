import { relative } from 'node:path';
import type { CallExpression, Class, Expression, Node, ObjectExpression, Program } from 'oxc-parser';
import { lineAt, parse } from './parse-text.ts';
import { sourceOf, sourcesIn } from './source-files.ts';
import {
  argument,
  bare,
  declarationOf,
  isClass,
  isFunction,
  keyOf,
  memberPath,
  propertyOf,
  requiredFrom,
  stringOf,
  walk,
} from './syntax.ts';
import { isProblem } from './wrapper-place.ts';

// Finds events in code: decorators, publishEvent(), publish(), outbox.save().

interface DeclaredFunction {
  /** Relative to the searched folder, with `/`. */
  readonly file: string;
  readonly line: number;
  /** As in reports at run time. */
  readonly name: string;
  readonly by: '@PublishEvent' | 'publishEvent()';
}

/** A rule for personal data in code whose strategy is a literal. */
interface DeclaredRule {
  readonly file: string;
  readonly line: number;
  readonly strategy: string;
  /** `undefined`: missing, or computed at run time. */
  readonly keyId: string | undefined;
}

interface DeclaredParts {
  readonly functions: DeclaredFunction[];
  readonly rules: DeclaredRule[];
  readonly events: DeclaredEvent[];
}

const mentionsSvc = /['"]svc['"]/;
const names: readonly string[] = ['PublishEvent', 'publishEvent', 'PiiField'];
const looksLikeOne = /\b(?:PublishEvent|publishEvent|PiiField|publish|outbox)\b/;

/**
 * Finds, without loading the code, the functions below `folder` that svc's `@PublishEvent` and `publishEvent()`
 * declare, the rules of these and of `@PiiField`, and the published events.
 */
export function findDeclared(folder: string): DeclaredParts {
  const found: DeclaredParts = { functions: [], rules: [], events: [] };
  for (const path of sourcesIn(folder)) {
    try {
      const text = sourceOf(path);
      if (text === undefined || !mentionsSvc.test(text) || !looksLikeOne.test(text)) continue;
      declaredIn(relative(folder, path).replaceAll('\\', '/'), text, found);
    } catch {
      // The file is gone or unreadable.
    }
  }
  return found;
}

function declaredIn(file: string, text: string, { functions, rules, events }: DeclaredParts): void {
  const parsed = parse(file, text, { goal: 'unknown', typed: /\.[cm]?tsx?$/.test(file) });
  if (isProblem(parsed)) return;
  const locals = localNames(parsed.program);
  const texts = constantTexts(parsed.program);
  const add: Add = (node, name, by, options, ownName) => {
    const line = lineAt(text, node.start);
    functions.push({ file, line, name, by });
    events.push({ file, line, name, ...eventOfOptions(options, ownName, texts, text) });
  };
  const visitSent = (call: CallExpression): void => {
    const sent = sentBy(call, locals);
    if (sent === undefined) return;
    const parts: EventParts[] =
      sent === 'publish' ? [eventOfPublish(call, texts, text)] : eventsOfSave(call, texts, text);
    const line = lineAt(text, call.start);
    for (const each of parts) events.push({ file, line, name: `${sent}()`, ...each });
  };
  const bindings = new Map<Node, string>();
  for (const node of walk([parsed.program])) {
    if (node.type === 'VariableDeclarator' && node.id.type === 'Identifier' && node.init)
      bindings.set(node.init, node.id.name);
    if (isClass(node)) visitClass(node, node.id?.name ?? bindings.get(node), locals, add);
    if (node.type === 'CallExpression' && names.some((name) => means(node.callee, name, locals)))
      for (const { at, ...rule } of rulesIn(node)) rules.push({ file, line: lineAt(text, at), ...rule });
    if (node.type === 'CallExpression' && means(node.callee, 'publishEvent', locals)) {
      const [options, fn] = [argument(node.arguments, 0), argument(node.arguments, 1)];
      const eventType =
        options?.type === 'ObjectExpression' ? stringOf(propertyOf(options, 'eventType')) : undefined;
      const own = fn && isFunction(fn) ? fn.id?.name : fn && memberPath(fn)?.split('.').at(-1);
      add(node, own ?? eventType ?? 'anonymous', 'publishEvent()', options, own);
    } else if (node.type === 'CallExpression') visitSent(node);
  }
}

/** The objects `{ strategy: '…', keyId: '…' }` in the arguments of the call. */
function rulesIn(node: Node): (Omit<DeclaredRule, 'file' | 'line'> & { at: number })[] {
  const rules: ReturnType<typeof rulesIn> = [];
  for (const each of walk([node], isFunction)) {
    const strategy = each.type === 'ObjectExpression' && stringOf(propertyOf(each, 'strategy'));
    if (strategy)
      rules.push({
        at: each.start,
        strategy,
        keyId: stringOf(propertyOf(each as ObjectExpression, 'keyId')),
      });
  }
  return rules;
}

/** @param ownName the default of the event type; `undefined`: known at run time only */
type Add = (
  node: Node,
  name: string,
  by: DeclaredFunction['by'],
  options: Node | undefined,
  ownName: string | undefined,
) => void;

/** `publish` or `outbox.save`, if imported from svc: other libraries have functions of these names. */
function sentBy(
  { callee }: CallExpression,
  locals: ReadonlyMap<string, string>,
): 'publish' | 'outbox.save' | undefined {
  const path = memberPath(callee) ?? '';
  const [root = '', ...rest] = path.split('.');
  const imported = locals.get(root);
  if (imported === undefined) return undefined;
  const full = [...(imported === '*' ? [] : [imported]), ...rest].join('.');
  return full === 'publish' || full === 'outbox.save' ? full : undefined;
}

function visitClass(
  node: Class,
  className: string | undefined,
  locals: ReadonlyMap<string, string>,
  add: Add,
): void {
  for (const member of node.body.body) {
    if (!('decorators' in member) || !('key' in member)) continue;
    for (const { expression } of member.decorators ?? []) {
      if (expression.type !== 'CallExpression' || !means(expression.callee, 'PublishEvent', locals)) continue;
      const key = keyOf(member.key, member.computed);
      const isNamed = className !== undefined && key !== undefined;
      const shown = key ?? '[computed]';
      const name = className === undefined ? shown : `${className}.${shown}`;
      add(member.key, name, '@PublishEvent', argument(expression.arguments, 0), isNamed ? name : undefined);
    }
  }
}

/** Whether this is svc's function, under its own name, a local one, or as a property (`svc.publishEvent`). */
function means(callee: Node, name: string, locals: ReadonlyMap<string, string>): boolean {
  const path = memberPath(callee);
  if (path === undefined) return false;
  return locals.get(path) === name || path === name || path.endsWith(`.${name}`);
}

function localNames(program: Program): Map<string, string> {
  const locals = new Map<string, string>();
  for (const statement of program.body) {
    if (statement.type === 'VariableDeclaration')
      for (const { id, init } of statement.declarations) addRequired(id, init, locals);
    if (statement.type !== 'ImportDeclaration' || statement.source.value !== 'svc') continue;
    for (const each of statement.specifiers) {
      if (each.type !== 'ImportSpecifier') locals.set(each.local.name, '*');
      else if (each.imported.type === 'Identifier') locals.set(each.local.name, each.imported.name);
    }
  }
  return locals;
}

/** `const { publish } = require('svc')`, and `const svc = require('svc')`. */
function addRequired(id: Node, init: Node | null, locals: Map<string, string>): void {
  if (!init || requiredFrom(init as Expression) !== 'svc') return;
  if (id.type === 'Identifier') locals.set(id.name, '*');
  if (id.type !== 'ObjectPattern') return;
  for (const property of id.properties) {
    const key = property.type === 'Property' ? keyOf(property.key, property.computed) : undefined;
    if (key !== undefined && property.type === 'Property' && property.value.type === 'Identifier')
      locals.set(property.value.name, key);
  }
}

/** The shape of a payload in code. Of a value that is not a literal, only the name is known. */
type SpelledValue = 'string' | 'integer' | 'number' | 'boolean' | 'null' | 'unknown' | SpelledObject;

export interface SpelledObject {
  readonly properties: Readonly<Record<string, SpelledValue>>;
  /** `false`: it also has spread or computed properties. */
  readonly isWhole: boolean;
}

export interface DeclaredEvent {
  /** Relative to the searched folder, with `/`. */
  readonly file: string;
  readonly line: number;
  readonly name: string;
  readonly eventType: string | undefined;
  /** `undefined`: known at run time only. `null`: the topic of the configuration. */
  readonly topic: string | null | undefined;
  /** An expression, the text of the code, or `a function`. */
  readonly key: string | undefined;
  /** An expression, the shape in the code, or `undefined`: unknown. */
  readonly payload: string | SpelledObject | undefined;
  /** Its rules for personal data, as written; `undefined`: missing, or computed at run time. */
  readonly pii: unknown;
}

type EventParts = Omit<DeclaredEvent, 'file' | 'line' | 'name'>;

function eventOfOptions(
  options: Node | undefined,
  name: string | undefined,
  texts: ReadonlyMap<string, string>,
  text: string,
): EventParts {
  if (options === undefined) return { ...unknownParts, eventType: name, topic: null };
  const object = options.type === 'ObjectExpression' ? options : undefined;
  if (object === undefined) return unknownParts;
  const payload = propertyOf(object, 'payload');
  return {
    ...fieldsOf(object, name, texts, text),
    payload: stringOf(payload) ?? (payload && spelledByFunction(payload)),
  };
}

function eventOfPublish(call: CallExpression, texts: ReadonlyMap<string, string>, text: string): EventParts {
  const [payload, options] = [argument(call.arguments, 0), argument(call.arguments, 1)];
  const object = payload && objectIn(payload);
  // Named by its class, as at run time.
  const name = object === undefined ? undefined : 'Event';
  return { ...eventOfOptions(options, name, texts, text), payload: object && spelledBy(object) };
}

/** From `outbox.save(executor, event)`, with one event or several. */
function eventsOfSave(call: CallExpression, texts: ReadonlyMap<string, string>, text: string): EventParts[] {
  const given = argument(call.arguments, 1);
  const all = given?.type === 'ArrayExpression' ? given.elements : [given];
  return all.map((each) => {
    const object = each && each.type !== 'SpreadElement' ? objectIn(each) : undefined;
    if (object === undefined) return unknownParts;
    const payload = propertyOf(object, 'payload');
    const made = payload && objectIn(payload);
    const fields = fieldsOf(object, undefined, texts, text);
    const aggregate = propertyOf(object, 'aggregateId');
    const key = fields.key ?? (aggregate && sliced(aggregate, text));
    return { ...fields, key, payload: made && spelledBy(made) };
  });
}

const unknownParts: EventParts = {
  eventType: undefined,
  topic: undefined,
  key: undefined,
  payload: undefined,
  pii: undefined,
};

function fieldsOf(
  object: ObjectExpression,
  name: string | undefined,
  texts: ReadonlyMap<string, string>,
  text: string,
): EventParts {
  const isSpread = object.properties.some(({ type }) => type === 'SpreadElement');
  const [type, topic, key] = ['eventType', 'topic', 'key'].map((each) => propertyOf(object, each));
  const outbox = propertyOf(object, 'outbox');
  const aggregate = outbox?.type === 'ObjectExpression' ? propertyOf(outbox, 'aggregateId') : undefined;
  const keyed = key ?? aggregate;
  return {
    eventType: type === undefined ? (isSpread ? undefined : name) : textOf(type, texts),
    topic: topic === undefined ? (isSpread ? undefined : null) : textOf(topic, texts),
    key: keyed && (stringOf(keyed) ?? sliced(keyed, text)),
    payload: undefined,
    pii: writtenOut(propertyOf(object, 'pii')),
  };
}

function writtenOut(node: Node | undefined): unknown {
  if (node === undefined) return undefined;
  const value = bare(node as Expression);
  const text = literalText(value);
  if (text !== undefined || value.type === 'Literal') return text;
  if (value.type === 'ArrayExpression') {
    const all = value.elements.map((each) => (each === null ? undefined : writtenOut(each)));
    return all.includes(undefined) ? undefined : all;
  }
  if (value.type !== 'ObjectExpression') return undefined;
  const entries = value.properties.map((property) =>
    property.type === 'Property'
      ? ([keyOf(property.key, property.computed), writtenOut(property.value)] as const)
      : ([undefined, undefined] as const),
  );
  return entries.some((entry) => entry.includes(undefined)) ? undefined : Object.fromEntries(entries);
}

const longestKey = 120;

function sliced(node: Node, text: string): string {
  if (isFunction(node)) return 'a function';
  const written = text.slice(node.start, node.end).replace(/\s+/g, ' ');
  return written.length > longestKey ? `${written.slice(0, longestKey)}…` : written;
}

/** The texts of constants in the file: `const created = '…'`, and `Types.created` of a constant object or enum. */
function constantTexts(program: Program): Map<string, string> {
  const found = new Map<string, string>();
  for (const statement of program.body) {
    const declared = declarationOf(statement);
    if (declared.type === 'TSEnumDeclaration')
      for (const { id, initializer } of declared.body.members) {
        const key = keyOf(id, false);
        const text = initializer ? literalText(initializer) : undefined;
        if (key !== undefined && text !== undefined) found.set(`${declared.id.name}.${key}`, text);
      }
    if (declared.type !== 'VariableDeclaration' || declared.kind !== 'const') continue;
    for (const { id, init } of declared.declarations) {
      if (id.type !== 'Identifier' || !init) continue;
      const value = frozen(init);
      const text = literalText(value);
      if (text !== undefined) found.set(id.name, text);
      if (value.type !== 'ObjectExpression') continue;
      for (const property of value.properties) {
        const key = property.type === 'Property' ? keyOf(property.key, property.computed) : undefined;
        const inside = property.type === 'Property' ? literalText(property.value) : undefined;
        if (key !== undefined && inside !== undefined) found.set(`${id.name}.${key}`, inside);
      }
    }
  }
  return found;
}

function frozen(init: Expression): Node {
  const value = bare(init);
  const first = value.type === 'CallExpression' ? argument(value.arguments, 0) : undefined;
  return value.type === 'CallExpression' && memberPath(value.callee) === 'Object.freeze' && first
    ? bare(first)
    : value;
}

function literalText(node: Node): string | undefined {
  if (node.type === 'TemplateLiteral' && node.expressions.length === 0)
    return node.quasis[0]?.value.cooked ?? undefined;
  return stringOf(node);
}

function textOf(node: Node, texts: ReadonlyMap<string, string>): string | undefined {
  return literalText(node) ?? texts.get(memberPath(node) ?? '');
}

/** The payload shape of a function in a configuration written as code. */
export function spelledByText(text: string): SpelledObject | undefined {
  const parsed = parse('payload.js', `(${text})`, { goal: 'unknown', typed: false });
  const [statement] = isProblem(parsed) ? [] : parsed.program.body;
  return statement?.type === 'ExpressionStatement'
    ? spelledByFunction(bare(statement.expression))
    : undefined;
}

/** `({ result }) => ({ orderId: result.id })` */
function spelledByFunction(node: Node): SpelledObject | undefined {
  if (!isFunction(node) || !node.body) return undefined;
  const { body } = node;
  const [only, ...more] = body.type === 'BlockStatement' ? body.body : [];
  const returned = only?.type === 'ReturnStatement' && more.length === 0 ? only.argument : undefined;
  const value = body.type === 'BlockStatement' ? returned : (body as Node);
  const object = value ? objectIn(value) : undefined;
  return object && spelledBy(object);
}

function objectIn(node: Node): ObjectExpression | undefined {
  const value = bare(node as Expression);
  return value.type === 'ObjectExpression' ? value : undefined;
}

function spelledBy(object: ObjectExpression): SpelledObject {
  const properties = new Map<string, SpelledValue>();
  let isWhole = true;
  for (const property of object.properties) {
    const key = property.type === 'Property' ? nameOf(property.key, property.computed) : undefined;
    if (key === undefined || property.type !== 'Property' || key === '__proto__') isWhole = false;
    else properties.set(key, spelledValue(property.value));
  }
  return { properties: Object.fromEntries(properties), isWhole };
}

function nameOf(key: Node, isComputed: boolean): string | undefined {
  if (key.type === 'Literal' && typeof key.value === 'number') return String(key.value);
  return keyOf(key, isComputed);
}

function spelledValue(node: Node): SpelledValue {
  const value = bare(node as Expression);
  if (value.type === 'ObjectExpression') return spelledBy(value);
  if (value.type === 'TemplateLiteral') return 'string';
  if (value.type !== 'Literal') return 'unknown';
  if (value.value === null && 'raw' in value && value.raw === 'null') return 'null';
  if (typeof value.value === 'string') return 'string';
  if (typeof value.value === 'boolean') return 'boolean';
  if (typeof value.value !== 'number') return 'unknown';
  return Number.isInteger(value.value) ? 'integer' : 'number';
}
