import type { Node, Program } from 'oxc-parser';
import {
  type AnyFunction,
  children,
  isFunction,
  keyOf,
  memberPath,
} from '../../capture/source/find/syntax.ts';
import { type FieldNames, typeOf } from './written-types.ts';

/** A value inside of a parameter or of the result, by a name for it in an event. */
export interface Field {
  readonly name: string;
  readonly path: readonly string[];
}

const isIdName = (name: string): boolean => /^id$|Id$|^_?uuid$/.test(name);

export type Parameter = AnyFunction['params'][number];

/** What is inside of one, as its pattern, its type or the function's own reading shows; `undefined`: it is a value itself. */
export function fieldsOfParameter(
  parameter: Node,
  name: string,
  node: AnyFunction,
  program: Program,
): readonly Field[] | undefined {
  const target = parameter.type === 'AssignmentPattern' ? parameter.left : parameter;
  if (target.type === 'ObjectPattern') return keysOfPattern(target).map(fieldNamed);
  const annotation = target.type === 'Identifier' ? target.typeAnnotation : undefined;
  const type = annotation ? typeOf(annotation.typeAnnotation, program) : undefined;
  if (type === 'value') return undefined;
  if (type !== undefined) return type.map(fieldNamed);
  const read = node.body ? fieldsRead(node.body, name) : [];
  if (read.length > 0) return read;
  // What is of no known type may be an object, which could hold anything: JavaScript, or what was built of TypeScript.
  return annotation || !isIdName(name) ? [] : undefined;
}

/** What the function returns, as far as its type or its text shows. */
export function fieldsOfResult(
  node: AnyFunction,
  program: Program,
): { readonly fields: readonly Field[]; readonly isNothing: boolean } {
  const written = node.returnType ? typeOf(node.returnType.typeAnnotation, program) : undefined;
  if (written === 'value') return { fields: [], isNothing: false };
  if (written !== undefined) return { fields: written.map(fieldNamed), isNothing: written.length === 0 };
  const returned = node.body ? returnedBy(node.body) : [];
  const names = returned.flatMap((value) => fieldsOfValue(value, node));
  return {
    fields: [...new Map(names.map((each) => [each.name, each])).values()],
    isNothing: returned.length === 0,
  };
}

function fieldsOfValue(value: Node, node: AnyFunction): readonly Field[] {
  if (value.type === 'ObjectExpression') return keysOfObject(value).map(fieldNamed);
  if (value.type !== 'Identifier' || !node.body) return [];
  const made = initOf(node.body, value.name);
  const keys = made?.type === 'ObjectExpression' ? keysOfObject(made).map(fieldNamed) : [];
  return [...keys, ...fieldsRead(node.body, value.name)];
}

/** `order.customer.id` and `const { id } = order.customer` read `customerId`. What is called is a method and no field. */
function fieldsRead(body: Node, root: string): Field[] {
  const found = new Map<string, Field>();
  const add = (path: string): void => {
    const [first, ...rest] = path.split('.');
    if (first !== root || rest.length === 0 || rest.at(-1) === 'length' || rest.length > 3) return;
    const names = /^(?:body|params|query)$/.test(rest[0] ?? '') ? rest.slice(1) : rest;
    const name = names
      .map((each, at) => (at === 0 ? each : each.charAt(0).toUpperCase() + each.slice(1)))
      .join('');
    if (name !== '' && /^[\w$]+$/.test(name) && !found.has(name)) found.set(name, { name, path: rest });
  };
  const visit = (node: Node): void => {
    if (node.type === 'MemberExpression') {
      const path = memberPath(node);
      if (path !== undefined) {
        add(path);
        return;
      }
    }
    if (node.type === 'CallExpression' && memberPath(node.callee) !== undefined) {
      for (const each of node.arguments) visit(each);
      return;
    }
    // What is written is not what the caller gave.
    if (node.type === 'AssignmentExpression') {
      visit(node.right);
      return;
    }
    if (node.type === 'VariableDeclarator' && node.id.type === 'ObjectPattern' && node.init) {
      const path = memberPath(node.init);
      if (path !== undefined) {
        for (const key of keysOfPattern(node.id)) add(`${path}.${key}`);
        return;
      }
    }
    for (const child of children(node)) visit(child);
  };
  visit(body);
  return [...found.values()];
}

/** What stands behind `return`, not in functions inside. */
function returnedBy(body: Node): Node[] {
  if (body.type !== 'BlockStatement') return [plain(body)];
  const found: Node[] = [];
  const visit = (node: Node): void => {
    if (isFunction(node)) return;
    if (node.type === 'ReturnStatement' && node.argument) found.push(plain(node.argument));
    for (const child of children(node)) visit(child);
  };
  for (const child of body.body) visit(child);
  return found;
}

function initOf(body: Node, name: string): Node | undefined {
  for (const node of children(body)) {
    if (node.type === 'VariableDeclarator' && node.id.type === 'Identifier' && node.id.name === name)
      return node.init ? plain(node.init) : undefined;
    const inside = isFunction(node) ? undefined : initOf(node, name);
    if (inside) return inside;
  }
  return undefined;
}

function plain(node: Node): Node {
  if (node.type === 'AwaitExpression') return plain(node.argument);
  if (
    node.type === 'ParenthesizedExpression' ||
    node.type === 'TSAsExpression' ||
    node.type === 'TSSatisfiesExpression'
  )
    return plain(node.expression);
  return node;
}

function keysOfPattern(pattern: Extract<Node, { type: 'ObjectPattern' }>): FieldNames {
  return pattern.properties.flatMap((each) =>
    each.type === 'Property' ? (keyOf(each.key, each.computed) ?? []) : [],
  );
}

/** Those whose value is no object, list or function in the text. */
function keysOfObject(object: Extract<Node, { type: 'ObjectExpression' }>): FieldNames {
  return object.properties.flatMap((each) => {
    if (
      each.type !== 'Property' ||
      /^(?:Object|Array|Function|ArrowFunction)Expression$/.test(each.value.type)
    )
      return [];
    return keyOf(each.key, each.computed) ?? [];
  });
}

const fieldNamed = (name: string): Field => ({ name, path: [name] });
