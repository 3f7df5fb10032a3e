import type { Class, Node, Program } from 'oxc-parser';
import { parse } from '../parse-text.ts';
import { isProblem } from '../wrapper-place.ts';
import { finder } from './find.ts';
import { scan } from './scan.ts';
import { type AnyFunction, core, isClass, isFunction, keyOf } from './syntax.ts';

/** A function of a file that a target can name. */
export interface OwnFunction {
  /** As a target names it: `OrderService.prototype.create`. */
  readonly path: string;
  readonly node: AnyFunction;
}

/** Every function that the text of a file shows, in its order; nothing for one that cannot be parsed. */
export function ownFunctions(
  file: string,
  text: string,
): { readonly program: Program | undefined; readonly functions: readonly OwnFunction[] } {
  const parsed = parse(file, text, { goal: 'unknown', typed: /\.[cm]?tsx?$/.test(file) });
  if (isProblem(parsed)) return { program: undefined, functions: [] };
  const { program } = parsed;
  const find = finder(program, text);
  const byPath = new Map<string, AnyFunction>();
  for (const [name, definitions] of scan(program, text).byName)
    for (const { node } of definitions)
      for (const each of functionsIn(name.replace(/^exports\.(?=.)/, ''), core(node as never), 0))
        if (!byPath.has(each.path)) byPath.set(each.path, each.node);
  const functions = [...byPath].map(([path, node]) => ({ path, node }));
  return { program, functions: functions.filter(({ path }) => !isProblem(find(path))) };
}

/** Objects in objects: nobody names a function by a longer path. */
const deepestObject = 20;

function functionsIn(name: string, node: Node, depth: number): OwnFunction[] {
  if (isFunction(node)) return [{ path: name, node }];
  if (isClass(node)) return node.body.body.flatMap((member) => ofMember(name, member));
  if (node.type !== 'ObjectExpression' || depth === deepestObject) return [];
  return node.properties.flatMap((each) => {
    if (each.type !== 'Property' || each.kind !== 'init') return [];
    const key = keyOf(each.key, each.computed);
    // `module.exports = { create }`: its properties are the names of the module.
    const path = name === 'exports' ? key : `${name}.${key}`;
    return key === undefined || path === undefined
      ? []
      : functionsIn(path, core(each.value as never), depth + 1);
  });
}

function ofMember(name: string, member: Class['body']['body'][number]): OwnFunction[] {
  if (member.type !== 'MethodDefinition' && member.type !== 'PropertyDefinition') return [];
  const key = keyOf(member.key, member.computed);
  if (key === undefined || key.startsWith('#')) return [];
  if (member.type === 'MethodDefinition' && member.kind !== 'method') return [];
  const node = member.value && core(member.value);
  return node && isFunction(node)
    ? [{ path: `${name}.${member.static ? '' : 'prototype.'}${key}`, node }]
    : [];
}
