import { relative } from 'node:path';
import type { Class, Node, Program } from 'oxc-parser';
import { lineAt, parse } from '../parse-text.ts';
import { isProblem } from '../wrapper-place.ts';
import { sourceOf, sourcesIn } from './source-files.ts';
import {
  argument,
  children,
  isClass,
  isFunction,
  keyOf,
  memberPath,
  propertyOf,
  stringOf,
} from './syntax.ts';

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
}

const mentionsSvc = /['"]svc['"]/;
const names: readonly string[] = ['PublishEvent', 'publishEvent', 'PiiField'];

/**
 * The functions below `folder` that `@PublishEvent` and `publishEvent()` of svc declare, and the rules of these and of
 * `@PiiField`, by reading alone.
 */
export function findDeclared(folder: string): DeclaredParts {
  const found: DeclaredParts = { functions: [], rules: [] };
  for (const path of sourcesIn(folder)) {
    try {
      const text = sourceOf(path);
      if (text === undefined || !mentionsSvc.test(text) || !names.some((name) => text.includes(name)))
        continue;
      declaredIn(relative(folder, path).replaceAll('\\', '/'), text, found);
    } catch {
      // It may be gone meanwhile, or not be readable: there is nothing to list.
    }
  }
  return found;
}

function declaredIn(file: string, text: string, { functions, rules }: DeclaredParts): void {
  const parsed = parse(file, text, { goal: 'unknown', typed: /\.[cm]?tsx?$/.test(file) });
  if (isProblem(parsed)) return;
  const locals = localNames(parsed.program);
  const add = (node: Node, name: string, by: DeclaredFunction['by']) =>
    functions.push({ file, line: lineAt(text, node.start), name, by });
  const visit = (node: Node, binding: string | undefined): void => {
    if (isClass(node)) visitClass(node, node.id?.name ?? binding, locals, add);
    if (node.type === 'CallExpression' && names.some((name) => means(node.callee, name, locals)))
      for (const { at, ...rule } of rulesIn(node)) rules.push({ file, line: lineAt(text, at), ...rule });
    if (node.type === 'CallExpression' && means(node.callee, 'publishEvent', locals)) {
      const [options, fn] = [argument(node.arguments, 0), argument(node.arguments, 1)];
      const eventType =
        options?.type === 'ObjectExpression' ? stringOf(propertyOf(options, 'eventType')) : undefined;
      const own = fn && isFunction(fn) ? fn.id?.name : fn && memberPath(fn)?.split('.').at(-1);
      add(node, own ?? eventType ?? 'anonymous', 'publishEvent()');
    }
    const named =
      node.type === 'VariableDeclarator' && node.id.type === 'Identifier' ? node.id.name : undefined;
    for (const child of children(node)) visit(child, named);
  };
  visit(parsed.program, undefined);
}

/** The objects `{ strategy: '…', keyId: '…' }` in what the call is given. */
function rulesIn(node: Node): (Omit<DeclaredRule, 'file' | 'line'> & { at: number })[] {
  const below = isFunction(node) ? [] : children(node).flatMap(rulesIn);
  const strategy = node.type === 'ObjectExpression' && stringOf(propertyOf(node, 'strategy'));
  if (!strategy) return below;
  return [{ at: node.start, strategy, keyId: stringOf(propertyOf(node, 'keyId')) }, ...below];
}

function visitClass(
  node: Class,
  className: string | undefined,
  locals: ReadonlyMap<string, string>,
  add: (node: Node, name: string, by: DeclaredFunction['by']) => void,
): void {
  for (const member of node.body.body) {
    if (!('decorators' in member) || !('key' in member)) continue;
    for (const { expression } of member.decorators ?? []) {
      if (expression.type !== 'CallExpression' || !means(expression.callee, 'PublishEvent', locals)) continue;
      const key = keyOf(member.key, member.computed) ?? '[computed]';
      add(member.key, className === undefined ? key : `${className}.${key}`, '@PublishEvent');
    }
  }
}

/** Whether this is svc's function, under its own name, a local one, or as a property (`svc.publishEvent`). */
function means(callee: Node, name: string, locals: ReadonlyMap<string, string>): boolean {
  const path = memberPath(callee);
  if (path === undefined) return false;
  return locals.get(path) === name || path === name || path.endsWith(`.${name}`);
}

/** Names that the file imports svc's functions under. */
function localNames(program: Program): Map<string, string> {
  const locals = new Map<string, string>();
  for (const statement of program.body) {
    if (statement.type !== 'ImportDeclaration' || statement.source.value !== 'svc') continue;
    for (const each of statement.specifiers) {
      if (each.type === 'ImportSpecifier' && each.imported.type === 'Identifier')
        locals.set(each.local.name, each.imported.name);
    }
  }
  return locals;
}
