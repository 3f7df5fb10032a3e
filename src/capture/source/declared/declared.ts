// declared/: what code says of its own events: decorators, publishEvent(), publish(), outbox.save().

import { relative } from 'node:path';
import type { CallExpression, Class, Expression, Node, ObjectExpression, Program } from 'oxc-parser';
import { sourceOf, sourcesIn } from '../find/source-files.ts';
import {
  argument,
  isClass,
  isFunction,
  keyOf,
  memberPath,
  propertyOf,
  requiredFrom,
  stringOf,
  walk,
} from '../find/syntax.ts';
import { lineAt, parse } from '../parse-text.ts';
import { isProblem } from '../wrapper-place.ts';
import {
  constantTexts,
  type DeclaredEvent,
  type EventParts,
  eventOfOptions,
  eventOfPublish,
  eventsOfSave,
} from './declared-event.ts';

/** A declaration in code, as far as reading shows it. */
export interface DeclaredFunction {
  /** Relative to the folder that was searched, with `/`. */
  readonly file: string;
  readonly line: number;
  /** As reports name it at run time. */
  readonly name: string;
  readonly by: '@PublishEvent' | 'publishEvent()';
}

/** A rule for personal data in code whose strategy stands there as text. */
export interface DeclaredRule {
  readonly file: string;
  readonly line: number;
  readonly strategy: string;
  /** `undefined`: none, or one that is made at run time. */
  readonly keyId: string | undefined;
}

export interface DeclaredParts {
  readonly functions: DeclaredFunction[];
  readonly rules: DeclaredRule[];
  /** Those of the functions, of `publish()` and of `outbox.save()`. */
  readonly events: DeclaredEvent[];
}

const mentionsSvc = /['"]svc['"]/;
const names: readonly string[] = ['PublishEvent', 'publishEvent', 'PiiField'];
const looksLikeOne = /\b(?:PublishEvent|publishEvent|PiiField|publish|outbox)\b/;

/**
 * The functions below `folder` that `@PublishEvent` and `publishEvent()` of svc declare, the rules of these and of `@PiiField`, and
 * the events that are published, by reading alone.
 */
export function findDeclared(folder: string): DeclaredParts {
  const found: DeclaredParts = { functions: [], rules: [], events: [] };
  for (const path of sourcesIn(folder)) {
    try {
      const text = sourceOf(path);
      if (text === undefined || !mentionsSvc.test(text) || !looksLikeOne.test(text)) continue;
      declaredIn(relative(folder, path).replaceAll('\\', '/'), text, found);
    } catch {
      // It may be gone meanwhile, or not be readable: there is nothing to list.
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
  /** By the function or class that a variable is declared with. */
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

/** The objects `{ strategy: '…', keyId: '…' }` in what the call is given. */
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

/** @param ownName what the event type is without another one; `undefined`: known at run time only */
type Add = (
  node: Node,
  name: string,
  by: DeclaredFunction['by'],
  options: Node | undefined,
  ownName: string | undefined,
) => void;

/** `publish` or `outbox.save`, imported from svc: other libraries have functions of these names. */
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

/** Names that the file imports svc's functions under; `*` is all of svc. */
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
