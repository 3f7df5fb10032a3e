import type { Class, Expression, Node, Program } from 'oxc-parser';
import type { Definitions } from '../find/definitions.ts';
import {
  type AnyFunction,
  beforeStatics,
  core,
  isClass,
  isFunction,
  isNameless,
  keyOf,
} from '../find/syntax.ts';
import type { Place } from '../wrapper-place.ts';
import { chainTo, nameIn } from './definition-site.ts';

/** A function, and all nodes that it stands in, from the program down to itself. */
export interface InText {
  readonly node: Node;
  readonly chain: readonly Node[];
}

/** What is defined at an offset: the name, or the first character of the function behind it, stands there. */
export function definedAt(program: Program, offset: number): InText | undefined {
  const chain = chainTo(program, offset, offset + 1);
  for (let at = chain.length - 1; at > 0; at--) {
    const node = chain[at] as Node;
    const found = definedIn(node, offset);
    if (found !== undefined) return { node: found, chain: chainTo(program, found.start, found.end) };
    if (isFunction(node) && node.body && offset >= node.body.start && offset > node.start) return undefined;
  }
  return undefined;
}

function definedIn(node: Node, offset: number): Node | undefined {
  if (isFunction(node)) {
    const isArrowOfExpression = node.body && node.body.type !== 'BlockStatement';
    return node.body && (offset < node.body.start || (isArrowOfExpression && offset === node.start))
      ? node
      : undefined;
  }
  switch (node.type) {
    case 'ExportNamedDeclaration':
    case 'ExportDefaultDeclaration': {
      const inner = node.declaration;
      return inner && offset < inner.start ? definedIn(inner, inner.start) : undefined;
    }
    case 'VariableDeclaration': {
      const [first] = node.declarations;
      return first && offset < first.start ? (first.init ?? undefined) : undefined;
    }
    case 'ExpressionStatement':
      return undefined;
    case 'MethodDefinition':
    case 'PropertyDefinition':
    case 'AccessorProperty':
    case 'Property':
      return offset < (node.value?.start ?? 0) && offset <= node.key.end
        ? (node.value ?? undefined)
        : undefined;
    case 'VariableDeclarator':
      return offset < node.id.end ? (node.init ?? undefined) : undefined;
    case 'AssignmentExpression':
      return offset < node.left.end ? node.right : undefined;
    default:
      return undefined;
  }
}

/** Where the wrapper of this function goes; `undefined` for what cannot have one. */
export function placeOf(
  { node, chain }: InText,
  path: readonly string[],
  definitions: Definitions,
): Place | undefined {
  const value = core(node as Expression | Class);
  if (node.type === 'FunctionDeclaration') {
    const all = [...definitions.byName.values()].flat();
    const declared = all.find((each) => each.kind === 'declaration' && each.node === node);
    if (declared?.kind !== 'declaration') return undefined;
    return node.id ? { form: 'binding', at: declared.at, name: node.id.name } : undefined;
  }
  const parent = chain.findLast(
    (each) => each !== node && each.start <= node.start && each.end >= node.end && nameIn(each) !== undefined,
  );
  const owner = parent && chain[chain.indexOf(parent) - 1];
  if (parent?.type === 'MethodDefinition' && parent.value === node) {
    const key = keyOf(parent.key, parent.computed);
    const holder = chain.findLast((each) => isClass(each) && each.body.body.includes(parent));
    if (key === undefined || key.startsWith('#') || parent.kind !== 'method' || !holder) return undefined;
    return { form: 'method', at: beforeStatics(holder as Class), key, isStatic: parent.static };
  }
  if (parent?.type === 'Property' && parent.value === node && (parent.method || parent.kind !== 'init')) {
    const key = keyOf(parent.key, parent.computed);
    if (key === undefined || parent.kind !== 'init' || owner?.type !== 'ObjectExpression') return undefined;
    return around(owner, [key], undefined, definitions);
  }
  if (path.length > 0 && isClass(value)) return undefined;
  return around(node, path, parent && directName(parent, node as AnyFunction), definitions);
}

function around(
  node: Node,
  path: readonly string[],
  name: string | undefined,
  { openEnds }: Definitions,
): Place {
  return { form: 'value', start: node.start, end: node.end, path, name, open: openEnds.has(node.end) };
}

/** The name that JavaScript gives to a nameless function here. */
function directName(parent: Node, node: AnyFunction): string | undefined {
  if (!isFunction(node) || !isNameless(node)) return undefined;
  switch (parent.type) {
    case 'VariableDeclarator':
      return parent.init === node && parent.id.type === 'Identifier' ? parent.id.name : undefined;
    case 'AssignmentExpression':
      return parent.right === node && parent.left.type === 'Identifier' ? parent.left.name : undefined;
    case 'Property':
    case 'PropertyDefinition':
      return parent.value === node ? keyOf(parent.key, parent.computed) : undefined;
    default:
      return undefined;
  }
}
