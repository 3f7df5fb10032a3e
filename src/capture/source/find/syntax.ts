import type {
  Argument,
  ArrowFunctionExpression,
  Class,
  Expression,
  Function as FunctionNode,
  Node,
  ObjectExpression,
} from 'oxc-parser';

/** Small questions about syntax trees, asked by several files here. */

export type AnyFunction = FunctionNode | ArrowFunctionExpression;

export function isFunction(node: Node): node is AnyFunction {
  return (
    node.type === 'FunctionDeclaration' ||
    node.type === 'FunctionExpression' ||
    node.type === 'ArrowFunctionExpression'
  );
}

export function isClass(node: Node): node is Class {
  return node.type === 'ClassDeclaration' || node.type === 'ClassExpression';
}

/** Every node directly below `node`. */
export function children(node: Node): Node[] {
  const found: Node[] = [];
  const fields = node as unknown as Record<string, unknown>;
  // for-in and no spreads: this runs for every node of a file.
  for (const key in fields) {
    const value = fields[key];
    if (typeof value !== 'object' || value === null) continue;
    if (Array.isArray(value)) {
      for (const child of value) if (isNode(child)) found.push(child);
    } else if (isNode(value)) found.push(value);
  }
  return found;
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && typeof (value as Node).type === 'string';
}

/** Takes off parentheses and types, which change nothing at run time. */
export function bare(node: Expression | Class): Expression | Class {
  switch (node.type) {
    case 'ParenthesizedExpression':
    case 'TSAsExpression':
    case 'TSSatisfiesExpression':
    case 'TSNonNullExpression':
    case 'TSTypeAssertion':
    case 'TSInstantiationExpression':
      return bare(node.expression);
    default:
      return node;
  }
}

/** The value itself, without what only hands it on: `(0, f)`, `Object.freeze(o)`, esbuild's `__name(f, "f")`. */
export function core(node: Expression | Class): Expression | Class {
  const value = withNamingCall(node);
  if (value.type !== 'CallExpression') return value;
  const [first, ...others] = value.arguments;
  if (!first || first.type === 'SpreadElement') return value;
  const inner = bare(first);
  const names =
    others.length === 1 && stringOf(others[0]) !== undefined && (isFunction(inner) || isClass(inner));
  return names ? inner : value;
}

/**
 * As `core`, but a call that seems to name a function stays: `retry(async () => {}, 'create')` looks the same as
 * `__name(f, "f")`, and returns another function, which is the one that is called.
 */
export function withNamingCall(node: Expression | Class): Expression | Class {
  const value = bare(node);
  if (value.type === 'SequenceExpression') {
    const last = value.expressions.at(-1);
    return last ? withNamingCall(last) : value;
  }
  if (value.type === 'AssignmentExpression' && value.operator === '=') return withNamingCall(value.right);
  if (value.type !== 'CallExpression') return value;
  const [first, ...others] = value.arguments;
  const freezes = /^Object\.(freeze|seal|preventExtensions)$/.test(memberPath(value.callee) ?? '');
  return freezes && first && first.type !== 'SpreadElement' && others.length === 0
    ? withNamingCall(first)
    : value;
}

/** A function without a name of its own that JavaScript names after what it is assigned to. */
export function isNameless(node: Expression | Class): boolean {
  const value = bare(node);
  return isFunction(value) && !value.id;
}

/** `a.b["c"]` as `a.b.c`; `module.exports` is `exports`. Undefined for anything that is not a plain path. */
export function memberPath(node: Node): string | undefined {
  if (node.type === 'Identifier') return node.name;
  if (node.type === 'ThisExpression') return 'this';
  if (node.type === 'ParenthesizedExpression' || node.type === 'TSAsExpression')
    return memberPath(node.expression);
  if (node.type !== 'MemberExpression') return undefined;
  const object = memberPath(node.object);
  const name = keyOf(node.property, node.computed);
  if (object === undefined || name === undefined) return undefined;
  return object === 'module' && name === 'exports' ? 'exports' : `${object}.${name}`;
}

/** The name of a property or class member; `#name` for a private one, undefined when it is computed. */
export function keyOf(key: Node, computed: boolean): string | undefined {
  if (key.type === 'PrivateIdentifier') return `#${key.name}`;
  if (key.type === 'Identifier') return computed ? undefined : key.name;
  return key.type === 'Literal' && typeof key.value === 'string' ? key.value : undefined;
}

export function stringOf(node: Node | undefined): string | undefined {
  return node?.type === 'Literal' && typeof node.value === 'string' ? node.value : undefined;
}

/** `exports.f = void 0`, as compilers announce exports. */
export function isNothing(value: Node): boolean {
  return (
    (value.type === 'UnaryExpression' && value.operator === 'void') ||
    (value.type === 'Identifier' && value.name === 'undefined')
  );
}

/** The value of a property that the text of an object gives. */
export function propertyOf(object: ObjectExpression, name: string): Expression | undefined {
  for (const property of object.properties) {
    if (property.type === 'Property' && keyOf(property.key, property.computed) === name)
      return property.value;
  }
  return undefined;
}

/** An argument that is an expression; undefined for a spread or a missing one. */
export function argument(list: Argument[], index: number): Expression | undefined {
  const found = list[index];
  return found && found.type !== 'SpreadElement' ? found : undefined;
}

/** The specifier of `require('x')`, also inside an interop helper such as `__importStar(require('x'))`. */
export function requiredFrom(node: Expression): string | undefined {
  const value = bare(node);
  if (value.type !== 'CallExpression') return undefined;
  const first = argument(value.arguments, 0);
  if (value.callee.type === 'Identifier' && value.callee.name === 'require') return stringOf(first);
  return first && /import|interop|toESM/i.test(memberPath(value.callee) ?? '')
    ? requiredFrom(first)
    : undefined;
}

/** Positions of the parameters that have a default. */
export function defaultedParameters(node: AnyFunction): number[] {
  return withoutThis(node).flatMap((parameter, index) =>
    parameter.type === 'AssignmentPattern' ? [index] : [],
  );
}

function withoutThis(node: AnyFunction) {
  const plain = node.params.map((each) => (each.type === 'TSParameterProperty' ? each.parameter : each));
  // TypeScript's `this` is written like a parameter and is none.
  return plain[0]?.type === 'Identifier' && plain[0].name === 'this' ? plain.slice(1) : plain;
}

/** Parameter names by position; '' for a destructured or a rest parameter, which no single argument stands for. */
export function parameterNames(node: AnyFunction): string[] {
  return withoutThis(node).map((plain) => {
    const target = plain.type === 'AssignmentPattern' ? plain.left : plain;
    return target.type === 'Identifier' ? target.name : '';
  });
}
