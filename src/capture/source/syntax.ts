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

/**
 * All nodes below these and themselves, as they stand in the text; `isLeaf`: nothing below it is visited. A loop, as everything is that
 * walks a tree: it may be deeper than a stack.
 */
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

/** Takes off parentheses and types, which change nothing at run time. */
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
 * Where a static block runs before everything else that a class runs when it is defined. Not at its beginning: containers
 * read the names in the first parentheses of its text, which are those of the constructor.
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

/** Of `a = b = c = …`, where each of them is asked for: else the time would grow with the square of the length. */
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

/** A function without a name of its own that JavaScript names after what it is assigned to. */
export function isNameless(node: Expression | Class): boolean {
  const value = bare(node);
  return isFunction(value) && !value.id;
}

/** `a.b["c"]` as `a.b.c`; `module.exports` is `exports`. Undefined for anything that is not a plain path. */
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
  for (let next: Expression | undefined = node; next !== undefined; ) {
    const value = bare(next);
    if (value.type !== 'CallExpression') return undefined;
    const first = argument(value.arguments, 0);
    if (value.callee.type === 'Identifier' && value.callee.name === 'require') return stringOf(first);
    next = /import|interop|toESM/i.test(memberPath(value.callee) ?? '') ? first : undefined;
  }
  return undefined;
}

/** Positions of the parameters that have a default. */
export function defaultedParameters(node: AnyFunction): number[] {
  return parametersOf(node).flatMap((parameter, index) =>
    parameter.type === 'AssignmentPattern' ? [index] : [],
  );
}

/** As `parameterNames` counts them. */
export function parametersOf(node: AnyFunction) {
  const plain = node.params.map((each) => (each.type === 'TSParameterProperty' ? each.parameter : each));
  // TypeScript's `this` is written like a parameter and is none.
  return plain[0]?.type === 'Identifier' && plain[0].name === 'this' ? plain.slice(1) : plain;
}

/** Parameter names by position; '' for a destructured or a rest parameter, which no single argument stands for. */
export function parameterNames(node: AnyFunction): string[] {
  return parametersOf(node).map((plain) => {
    const target = plain.type === 'AssignmentPattern' ? plain.left : plain;
    return target.type === 'Identifier' ? target.name : '';
  });
}

/**
 * How near a definition is to the module scope: 0 in it, 1 in a function that runs at once (the wrapper that tsx, UMD and
 * bundlers put around a module), 2 deeper.
 */
export type Tier = 0 | 1 | 2;

/** A hoisted function: its binding can be assigned at the top of its block. */
interface DeclaredFunction {
  readonly kind: 'declaration';
  readonly name: string;
  readonly tier: Tier;
  readonly node: FunctionNode;
  /** Where a statement can be inserted that runs before everything else in the block. */
  readonly at: number;
  /** `if (x) function f() {}` of sloppy code: no statement can be inserted that sees it. */
  readonly isUnbraced?: true;
}

/** A value under a name: an initializer, the right side of an assignment, a default export, a class. */
export interface NamedValue {
  readonly kind: 'value';
  readonly name: string;
  readonly tier: Tier;
  readonly node: Expression | Class;
  /** The name that JavaScript gives to a nameless function here; `undefined` where it gives none. */
  readonly infers: string | undefined;
  /** `Order || (Order = {})`, as compilers write a namespace: no definition where there is a class or function of this name. */
  readonly isMerge?: true;
}

export type Definition = DeclaredFunction | NamedValue;

/** What one file says about its names. CommonJS exports are under `exports.name`, `module.exports` itself under `exports`. */
export interface Definitions {
  readonly byName: Map<string, Definition[]>;
  /** Members that helper calls give to a class, such as `_define_property(Name, 'field', value)`, under `Name.field`. */
  readonly helperMembers: Map<string, NamedValue>;
  /** Exported name to local name. */
  readonly aliases: Map<string, string>;
  /** Names that another module defines, with its specifier where the text tells it. */
  readonly foreign: Map<string, string | undefined>;
  /** Names that are taken out of a value (`const { create } = makeService()`), with the text of the value. */
  readonly parts: Map<string, string>;
  /** Specifiers of `export * from`. */
  readonly stars: string[];
  /** Ends of statements that rely on automatic semicolons: text appended there must bring its own. */
  readonly openEnds: Set<number>;
}

export function noDefinitions(): Definitions {
  return {
    byName: new Map(),
    helperMembers: new Map(),
    aliases: new Map(),
    foreign: new Map(),
    parts: new Map(),
    stars: [],
    openEnds: new Set(),
  };
}
