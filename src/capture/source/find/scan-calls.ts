import type { CallExpression, Expression, Node, ObjectExpression } from 'oxc-parser';
import type { Definitions } from './definitions.ts';
import {
  argument,
  bare,
  core,
  isFunction,
  keyOf,
  memberPath,
  propertyOf,
  requiredFrom,
  stringOf,
} from './syntax.ts';

/** Notes what the helper calls of compilers and bundlers say about names. */
export function scanCall(node: CallExpression, found: Definitions): void {
  const first = argument(node.arguments, 0);
  const key = stringOf(argument(node.arguments, 1));
  const last = argument(node.arguments, node.arguments.length - 1);
  const object = last ? bare(last) : undefined;
  const owner = first ? memberPath(first) : undefined;
  if (memberPath(node.callee) === 'Object.defineProperty' && object?.type === 'ObjectExpression') {
    const value = propertyOf(object, 'value');
    if (owner === 'exports' && key !== undefined) noteGetter(key, getterOf(object), found);
    // Object.defineProperty(Name, 'field', { value }) of tsc.
    else if (owner !== undefined && key !== undefined && value) noteMember(`${owner}.${key}`, value, found);
  } else if (
    owner !== undefined &&
    owner !== 'this' &&
    key !== undefined &&
    node.arguments.length === 3 &&
    last
  ) {
    // _define_property(Name, 'field', value) of swc, __publicField(Name, 'field', value) of esbuild.
    if (isFunction(core(last))) noteMember(`${owner}.${key}`, last, found);
  } else if (object?.type === 'ObjectExpression' && node.arguments.length <= 2) {
    noteExportMap(object, found);
  }
  if (owner !== undefined) {
    // _create_class(Name, [{ key: 'create', value: function create() {} }], [statics]) of swc and Babel.
    noteMembers(`${owner}.prototype`, argument(node.arguments, 1), found);
    noteMembers(owner, argument(node.arguments, 2), found);
  }
  if (/export_?star|reexport/i.test(memberPath(node.callee) ?? '')) {
    const source = node.arguments
      .map((each) => requiredFrom(each as Expression))
      .find((each) => each !== undefined);
    if (source !== undefined) found.stars.push(source);
  }
}

function noteMembers(owner: string, list: Expression | undefined, found: Definitions): void {
  if (list?.type !== 'ArrayExpression') return;
  for (const element of list.elements) {
    if (element?.type !== 'ObjectExpression') continue;
    const key = stringOf(propertyOf(element, 'key'));
    const value = propertyOf(element, 'value');
    if (key !== undefined && value) noteMember(`${owner}.${key}`, value, found);
  }
}

function noteMember(path: string, value: Expression, found: Definitions): void {
  found.helperMembers.set(path, { kind: 'value', name: path, tier: 0, node: value, infers: undefined });
}

/** `__export(target, { default: () => main, create: () => create2 })` of esbuild, and its like of swc and rolldown. */
function noteExportMap(map: ObjectExpression, found: Definitions): void {
  const entries: [string, Expression][] = [];
  for (const property of map.properties) {
    if (property.type !== 'Property') return;
    const name = keyOf(property.key, property.computed);
    const value = handedOut(property.value);
    if (name === undefined || !value || memberPath(value) === undefined) return;
    entries.push([name, value]);
  }
  for (const [name, value] of entries) noteGetter(name, value, found);
}

function noteGetter(name: string, value: Expression | undefined, found: Definitions): void {
  if (value?.type === 'Identifier') {
    if (value.name !== name && !found.aliases.has(name)) found.aliases.set(name, value.name);
  } else if (value?.type === 'MemberExpression') {
    // `orders_1.create`: what `require` gave, handed on.
    const owner = memberPath(value.object) ?? '';
    if (found.foreign.has(owner)) found.foreign.set(name, found.foreign.get(owner));
  }
}

/** What the `get` of a property descriptor returns. */
function getterOf(descriptor: ObjectExpression): Expression | undefined {
  const getter = propertyOf(descriptor, 'get');
  return getter && handedOut(getter);
}

/** The `x` of `() => x`, `function () { return x; }`, `get name() { return x; }`. */
function handedOut(node: Node): Expression | undefined {
  if (!isFunction(node) || node.params.length > 0 || !node.body) return undefined;
  if (node.body.type !== 'BlockStatement') return node.body;
  const [only, ...more] = node.body.body;
  return only?.type === 'ReturnStatement' && more.length === 0 ? (only.argument ?? undefined) : undefined;
}
