import type { Expression, Node } from 'oxc-parser';
import { isProblem, type Problem } from '../wrapper-place.ts';
import type { Definitions } from './definitions.ts';
import { findInClass } from './find-in-class.ts';
import { findInObject } from './find-in-object.ts';
import { type AnyFunction, core, isClass, isFunction, walk } from './syntax.ts';

/**
 * Looks into what a factory's text returns: for the parameter names of the method, and to tell a name that is not there
 * before anybody calls the factory. What the text does not show is left to run time.
 */
export function findReturned(
  factory: AnyFunction,
  path: readonly string[],
  name: string,
  definitions: Definitions,
): { shown: AnyFunction | undefined } | Problem {
  const problems: Problem[] = [];
  const values = returnedValues(factory);
  for (const value of values) {
    const found = lookInto(core(value), path, name, factory, definitions);
    if (isProblem(found)) problems.push(found);
    else if (found.shown) return found;
  }
  const [first] = problems;
  return first && problems.length === values.length ? first : { shown: undefined };
}

type Looked = { shown: AnyFunction | undefined } | Problem;

function lookInto(
  value: Node,
  path: readonly string[],
  name: string,
  factory: AnyFunction,
  definitions: Definitions,
): Looked {
  const nothing: Looked = { shown: undefined };
  if (isFunction(value)) return path.length === 0 ? { shown: value } : nothing;
  if (value.type === 'ObjectExpression') {
    const found = findInObject(value, `${name}()`, path);
    if ('missing' in found) return { problem: found.missing };
    if (isProblem(found) || found.local === undefined || found.depth < path.length) return found;
    return { shown: functionNamed(found.local, factory, definitions) };
  }
  const [method] = path;
  if (value.type === 'NewExpression' && value.callee.type === 'Identifier' && path.length === 1 && method) {
    const [definition] = definitions.byName.get(value.callee.name) ?? [];
    const node = definition?.kind === 'value' ? core(definition.node) : undefined;
    const member =
      node && isClass(node) ? findInClass(node, value.callee.name, ['prototype', method]) : undefined;
    return member && !isProblem(member) && member.kind === 'method' ? { shown: member.shown } : nothing;
  }
  if (value.type === 'Identifier') {
    if (path.length === 0) return { shown: functionNamed(value.name, factory, definitions) };
    const assigned = functionNamed([value.name, ...path].join('.'), factory, definitions);
    if (assigned) return { shown: assigned };
    const local = within(factory, value.name, definitions);
    const object = local?.kind === 'value' ? core(local.node) : undefined;
    if (!object || object.type === 'Identifier') return nothing;
    const found = lookInto(object, path, name, factory, definitions);
    // Properties can be added to a named object later on, so what is missing here proves nothing.
    return isProblem(found) ? nothing : found;
  }
  return nothing;
}

function functionNamed(
  name: string,
  factory: AnyFunction,
  definitions: Definitions,
): AnyFunction | undefined {
  const definition = within(factory, name, definitions);
  if (definition?.kind === 'declaration') return definition.node;
  const value = definition ? core(definition.node) : undefined;
  return value && isFunction(value) ? value : undefined;
}

/** The definition inside the factory, else the file's only one. */
function within(factory: AnyFunction, name: string, definitions: Definitions) {
  const list = definitions.byName.get(name) ?? [];
  const inside = list.filter((each) => each.node.start > factory.start && each.node.end <= factory.end);
  const [only, more] = inside.length > 0 ? inside : list;
  return more ? undefined : only;
}

function returnedValues(factory: AnyFunction): Expression[] {
  if (!factory.body) return [];
  if (factory.body.type !== 'BlockStatement') return [factory.body];
  const isOther = (node: Node) => isFunction(node) || isClass(node) || node.type === 'ReturnStatement';
  const returned: Expression[] = [];
  for (const node of walk(factory.body.body, isOther))
    if (node.type === 'ReturnStatement' && node.argument) returned.push(node.argument);
  return returned;
}
