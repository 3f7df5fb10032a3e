import type {
  Argument,
  ArrowFunctionExpression,
  Class,
  Expression,
  Function as FunctionNode,
  Node,
  ObjectExpression,
} from 'oxc-parser';

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

/** What a statement declares, also behind `export`; otherwise the statement. */
export function declarationOf(statement: Node): Node {
  const isExport =
    statement.type === 'ExportNamedDeclaration' || statement.type === 'ExportDefaultDeclaration';
  return (isExport && statement.declaration) || statement;
}

export function children(node: Node): Node[] {
  const found: Node[] = [];
  const fields = node as unknown as Record<string, unknown>;
  // for-in without spreads, for speed: this runs for every node of a file.
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

/** These nodes and all below, in text order; `isLeaf` stops the descent. A loop: a tree may be deeper than the stack. */
export function* walk(
  nodes: readonly Node[],
  isLeaf: (node: Node) => boolean = () => false,
): Generator<Node> {
  const open = [...nodes].reverse();
  for (let node = open.pop(); node !== undefined; node = open.pop()) {
    yield node;
    if (isLeaf(node)) continue;
    const below = children(node);
    for (let index = below.length - 1; index >= 0; index--) open.push(below[index] as Node);
  }
}

/** Strips parentheses and types, which have no effect at run time. */
export function bare(node: Expression | Class): Expression | Class {
  for (let inner = node; ; )
    switch (inner.type) {
      case 'ParenthesizedExpression':
      case 'TSAsExpression':
      case 'TSSatisfiesExpression':
      case 'TSNonNullExpression':
      case 'TSTypeAssertion':
      case 'TSInstantiationExpression':
        inner = inner.expression;
        break;
      default:
        return inner;
    }
}

/**
 * Where a static block runs before the other static code of a class. Not at the start of the class: dependency
 * injection reads parameter names from the first parentheses of its text, which must be the constructor's.
 */
export function beforeStatics(node: Class): number {
  const first = node.body.body.find(
    (each) =>
      each.type === 'StaticBlock' ||
      ((each.type === 'PropertyDefinition' || each.type === 'AccessorProperty') && each.static),
  );
  if (first === undefined) return node.body.end - 1;
  const decorators = 'decorators' in first ? first.decorators : [];
  return Math.min(first.start, ...decorators.map(({ start }) => start));
}

/** The value itself, behind calls that return it: `(0, f)`, `Object.freeze(o)`, esbuild's `__name(f, "f")`. */
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
 * As `core`, but keeps a call that seems to name a function: `retry(async () => {}, 'create')` looks like `__name(f,
 * "f")`, and returns another function, which is the one to capture.
 */
export function withNamingCall(node: Expression | Class): Expression | Class {
  const passed: object[] = [];
  for (let value = bare(node); ; ) {
    const inner = passed.length > longChain ? chainEnds.get(value) : undefined;
    const next = inner ?? handedThrough(value);
    if (next === undefined) {
      if (passed.length > longChain) for (const each of passed) chainEnds.set(each, value);
      return value;
    }
    passed.push(value);
    value = bare(next);
  }
}

/** The end of `a = b = c = …`, cached: otherwise the time is quadratic in the chain's length. */
const chainEnds = new WeakMap<object, Expression | Class>();
const longChain = 100;

function handedThrough(value: Expression | Class): Expression | undefined {
  if (value.type === 'SequenceExpression') return value.expressions.at(-1);
  if (value.type === 'AssignmentExpression') return value.operator === '=' ? value.right : undefined;
  if (value.type !== 'CallExpression' || value.arguments.length !== 1) return undefined;
  const [first] = value.arguments;
  if (!first || first.type === 'SpreadElement') return undefined;
  return /^Object\.(freeze|seal|preventExtensions)$/.test(memberPath(value.callee) ?? '') ? first : undefined;
}

/** A nameless function, which JavaScript names after its assignment. */
export function isNameless(node: Expression | Class): boolean {
  const value = bare(node);
  return isFunction(value) && !value.id;
}

/** `a.b["c"]` as `a.b.c`; `module.exports` is `exports`. `undefined` if it is not a plain path. */
export function memberPath(node: Node): string | undefined {
  const keys: string[] = [];
  for (let inner = node; ; ) {
    switch (inner.type) {
      case 'Identifier':
      case 'ThisExpression': {
        const root = inner.type === 'Identifier' ? inner.name : 'this';
        if (root === 'module' && keys.at(-1) === 'exports') keys[keys.length - 1] = 'exports';
        else keys.push(root);
        return keys.reverse().join('.');
      }
      case 'ParenthesizedExpression':
      case 'TSAsExpression':
        inner = inner.expression;
        break;
      case 'MemberExpression': {
        const key = keyOf(inner.property, inner.computed);
        if (key === undefined) return undefined;
        keys.push(key);
        inner = inner.object;
        break;
      }
      default:
        return undefined;
    }
  }
}

/** The name of a property or class member; `#name` for a private one, `undefined` for a computed one. */
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

export function propertyOf(object: ObjectExpression, name: string): Expression | undefined {
  for (const property of object.properties) {
    if (property.type === 'Property' && keyOf(property.key, property.computed) === name)
      return property.value;
  }
  return undefined;
}

/** An argument that is an expression; `undefined` for a spread or a missing one. */
export function argument(list: Argument[], index: number): Expression | undefined {
  const found = list[index];
  return found && found.type !== 'SpreadElement' ? found : undefined;
}

/** The specifier of `require('x')`, also inside an interop helper such as `__importStar(require('x'))`. */
export function requiredFrom(node: Expression): string | undefined {
  for (let next: Expression | undefined = node; next !== undefined; ) {
    const value = bare(next);
    if (value.type !== 'CallExpression') return undefined;
    const first = argument(value.arguments, 0);
    if (value.callee.type === 'Identifier' && value.callee.name === 'require') return stringOf(first);
    next = /import|interop|toESM/i.test(memberPath(value.callee) ?? '') ? first : undefined;
  }
  return undefined;
}

export function parametersOf(node: AnyFunction) {
  const plain = node.params.map((each) => (each.type === 'TSParameterProperty' ? each.parameter : each));
  // TypeScript's `this` parameter does not exist at run time.
  return plain[0]?.type === 'Identifier' && plain[0].name === 'this' ? plain.slice(1) : plain;
}

export function parameterNames(node: AnyFunction): string[] {
  return parametersOf(node).map((plain) => {
    const target = plain.type === 'AssignmentPattern' ? plain.left : plain;
    return target.type === 'Identifier' ? target.name : '';
  });
}

/** The `x` of `() => x`, `function () { return x; }`, `get name() { return x; }`. */
export function returnedExpression(node: Node): Expression | undefined {
  if (!isFunction(node) || node.params.length > 0 || !node.body) return undefined;
  if (node.body.type !== 'BlockStatement') return node.body;
  const [only, ...more] = node.body.body;
  return only?.type === 'ReturnStatement' && more.length === 0 ? (only.argument ?? undefined) : undefined;
}

/** The name in an import or export specifier. */
export function specifiedName(node: Node): string {
  if (node.type === 'Identifier') return node.name;
  return node.type === 'Literal' ? String(node.value) : '';
}
