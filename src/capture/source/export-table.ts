import type { Class, Expression, Node, ObjectExpression, Program, VariableDeclarator } from 'oxc-parser';
import {
  argument,
  bare,
  children,
  core,
  isClass,
  isFunction,
  isNothing,
  keyOf,
  memberPath,
  propertyOf,
  requiredFrom,
  stringOf,
} from './syntax.ts';

/** What an export, or a name of the module, stands for. */
export type Value =
  /** Of another module: nothing in `names` is the module itself, a namespace or `module.exports`. */
  | { readonly kind: 'from'; readonly specifier: string; readonly names: readonly string[] }
  /** Of this module: a name in its scope, and a path behind that. */
  | { readonly kind: 'local'; readonly name: string; readonly names: readonly string[] }
  /** Another export of this module. */
  | { readonly kind: 'export'; readonly names: readonly string[] }
  /** An object whose text shows its properties. */
  | {
      readonly kind: 'object';
      readonly members: ReadonlyMap<string, Value>;
      readonly spreads: readonly Value[];
    }
  /** A value that stands right there: a function, or what only running it tells. */
  | { readonly kind: 'here'; readonly isFunction: boolean };

/** What the text of a module says about its exports. */
export interface ExportTable {
  readonly isModule: boolean;
  /** More than one value where a condition decides. */
  readonly named: ReadonlyMap<string, readonly Value[]>;
  /** `module.exports` itself. */
  readonly whole: readonly Value[];
  /** Of `export * from`, and of the helpers that compilers write for it. */
  readonly stars: readonly string[];
  /** Names of the module's scope that stand for something of another module. */
  readonly borrowed: ReadonlyMap<string, Value>;
  /** Names of the module's scope that can be assigned. */
  readonly assignable: ReadonlySet<string>;
}

interface Growing extends ExportTable {
  readonly named: Map<string, Value[]>;
  readonly whole: Value[];
  readonly stars: string[];
  readonly borrowed: Map<string, Value>;
  readonly assignable: Set<string>;
  /** What a helper defines as getters, by the object that it defines them on. */
  readonly getters: Map<string, Map<string, Value>>;
  /** The object that `module.exports` is made of: `module.exports = __toCommonJS(index_exports)` of esbuild. */
  madeOf: string;
}

export function readExports(program: Program): ExportTable {
  const isModule = program.body.some(({ type }) => /^(Import|Export).*Declaration$/.test(type));
  const table: Growing = {
    isModule,
    named: new Map(),
    whole: [],
    stars: [],
    borrowed: new Map(),
    assignable: new Set(),
    getters: new Map(),
    madeOf: 'exports',
  };
  if (isModule) for (const node of program.body) readStatement(node, table);
  else readCommonJs(program, table);
  return table;
}

function addNamed(table: Growing, name: string, value: Value): void {
  const list = table.named.get(name);
  if (list) list.push(value);
  else table.named.set(name, [value]);
}

const unknown: Value = { kind: 'here', isFunction: false };
const local = (name: string, ...names: string[]): Value => ({ kind: 'local', name, names });
const from = (specifier: string, ...names: string[]): Value => ({ kind: 'from', specifier, names });

// ES modules

function readStatement(node: Program['body'][number], table: Growing): void {
  switch (node.type) {
    case 'ImportDeclaration':
      for (const each of node.specifiers) {
        const names =
          each.type === 'ImportDefaultSpecifier'
            ? ['default']
            : each.type === 'ImportSpecifier'
              ? [nameOf(each.imported)]
              : [];
        table.borrowed.set(each.local.name, from(node.source.value, ...names));
      }
      break;
    case 'ExportAllDeclaration':
      if (node.exported) addNamed(table, nameOf(node.exported), from(node.source.value));
      else table.stars.push(node.source.value);
      break;
    case 'ExportNamedDeclaration':
      for (const each of node.specifiers) {
        const name = nameOf(each.local);
        addNamed(table, nameOf(each.exported), node.source ? from(node.source.value, name) : local(name));
      }
      if (node.declaration)
        for (const name of declared(node.declaration, table)) addNamed(table, name, local(name));
      break;
    case 'ExportDefaultDeclaration': {
      const value = node.declaration;
      const name = 'id' in value && value.id?.type === 'Identifier' ? value.id.name : undefined;
      const isDeclared = value.type === 'FunctionDeclaration' || value.type === 'ClassDeclaration';
      if (isDeclared && name !== undefined) table.assignable.add(name);
      if (isDeclared)
        addNamed(table, 'default', name === undefined ? { kind: 'here', isFunction: true } : local(name));
      else addNamed(table, 'default', meant(value as Expression));
      break;
    }
    default:
      declared(node, table);
  }
}

/** The names that a statement gives to the module's scope. */
function declared(node: Node, table: Growing): string[] {
  if ((node.type === 'FunctionDeclaration' || node.type === 'ClassDeclaration') && node.id) {
    table.assignable.add(node.id.name);
    return [node.id.name];
  }
  if (node.type !== 'VariableDeclaration') return [];
  return node.declarations.flatMap((each) => {
    const names = declaredBy(each, table);
    if (node.kind === 'let' || node.kind === 'var') for (const name of names) table.assignable.add(name);
    return names;
  });
}

function declaredBy({ id, init }: VariableDeclarator, table: Growing): string[] {
  const value = init ? borrowed(meant(init), table) : undefined;
  if (id.type === 'Identifier') {
    if (value !== undefined) table.borrowed.set(id.name, value);
    return [id.name];
  }
  if (id.type !== 'ObjectPattern') return [];
  return id.properties.flatMap((property) => {
    if (property.type !== 'Property') return [];
    const target = property.value.type === 'AssignmentPattern' ? property.value.left : property.value;
    const key = keyOf(property.key, property.computed);
    if (target.type !== 'Identifier') return [];
    if (value !== undefined && key !== undefined) table.borrowed.set(target.name, within(value, [key]));
    return [target.name];
  });
}

/** A value that leads out of the module; `undefined` for its own. */
function borrowed(value: Value, table: Growing): Value | undefined {
  if (value.kind === 'from') return value;
  const behind = value.kind === 'local' ? table.borrowed.get(value.name) : undefined;
  return behind === undefined || value.kind !== 'local' ? undefined : within(behind, value.names);
}

/** What a path leads to inside of a value. */
export function within(value: Value, path: readonly string[]): Value {
  if (path.length === 0) return value;
  switch (value.kind) {
    case 'from':
    case 'local':
    case 'export':
      return { ...value, names: [...value.names, ...path] };
    default:
      return value;
  }
}

// CommonJS

function readCommonJs(program: Program, table: Growing): void {
  const visit = (node: Node, atOnce: boolean): void => {
    if (isFunction(node) && !atOnce) return;
    switch (node.type) {
      case 'VariableDeclaration':
      case 'FunctionDeclaration':
      case 'ClassDeclaration':
        declared(node, table);
        break;
      case 'AssignmentExpression':
        if (node.operator === '=') readAssignment(node.left, node.right, table);
        break;
      case 'LogicalExpression':
        // `0 && (module.exports = { … })` only tells Node's lexer the export names.
        if (node.operator === '&&' && node.left.type === 'Literal' && node.left.value === 0) return;
        break;
      case 'CallExpression':
        readCall(node, table);
        break;
      default:
    }
    const hands = node.type === 'ParenthesizedExpression' || node.type === 'MemberExpression';
    const runs = node.type === 'CallExpression' && runsAtOnce(node.callee);
    for (const child of children(node)) visit(child, runs || (hands && atOnce));
  };
  for (const node of program.body) visit(node, false);
  for (const [name, value] of table.getters.get(table.madeOf) ?? []) addNamed(table, name, value);
}

/** `(function () {…})()`, `(() => {…}).call(this)`: its function, and those that it is given, belong to the module. */
function runsAtOnce(callee: Expression): boolean {
  const direct = bare(callee);
  return (
    isFunction(direct) ||
    (direct.type === 'MemberExpression' && isFunction(bare(direct.object as Expression)))
  );
}

function readAssignment(target: Node, right: Expression, table: Growing): void {
  const path = memberPath(target);
  if (path === undefined || !/^exports(\.[^.]+)?$/.test(path)) return;
  // `exports = module.exports = …` and `exports.a = exports.b = void 0`.
  const value = core(right);
  if (isNothing(value)) return;
  // `module.exports = exports = f`, where what is inside is visited as well.
  if (path === 'exports') {
    const found = meant(right);
    if (found.kind === 'export' && found.names.length === 0) return;
    if (value.type === 'CallExpression') readMade(value, table);
    table.whole.push(found);
  } else addNamed(table, path.slice('exports.'.length), meant(right));
}

/** `module.exports = __toCommonJS(index_exports)`, `module.exports = __toCommonJS(__export({}, { create: () => create }))`. */
function readMade(call: Extract<Node, { type: 'CallExpression' }>, table: Growing): void {
  for (const each of call.arguments) {
    if (each.type === 'CallExpression') readMade(each, table);
    if (each.type === 'Identifier' && /to_?commonjs/i.test(memberPath(call.callee) ?? ''))
      table.madeOf = each.name;
    if (each.type === 'ObjectExpression')
      for (const [name, value] of gettersIn(each)) addNamed(table, name, value);
  }
}

function gettersIn(object: ObjectExpression): [string, Value][] {
  return object.properties.flatMap((property): [string, Value][] => {
    if (property.type !== 'Property') return [];
    const name = keyOf(property.key, property.computed);
    const given = handedOut(property.value);
    return name === undefined || given === undefined ? [] : [[name, meant(given)]];
  });
}

function readCall(node: Extract<Node, { type: 'CallExpression' }>, table: Growing): void {
  const callee = memberPath(node.callee) ?? '';
  const first = argument(node.arguments, 0);
  const second = argument(node.arguments, 1);
  const owner = first ? memberPath(first) : undefined;
  if (callee === 'Object.defineProperty' && owner === 'exports') {
    const key = stringOf(second);
    const third = argument(node.arguments, 2);
    const descriptor = third && bare(third);
    if (key === undefined || descriptor?.type !== 'ObjectExpression') return;
    const getter = propertyOf(descriptor, 'get');
    const given = getter ? handedOut(getter) : propertyOf(descriptor, 'value');
    if (given && key !== '__esModule' && !isNothing(core(given))) addNamed(table, key, meant(given));
  } else if (/export_?star|reexport/i.test(callee)) {
    const source = node.arguments
      .map((each) => requiredFrom(each as Expression))
      .find((each) => each !== undefined);
    if (source !== undefined) table.stars.push(source);
  } else if (callee === 'Object.assign' && owner === 'exports') {
    for (const each of node.arguments.slice(1)) {
      const value = meant(each as Expression);
      if (value.kind === 'from' && value.names.length === 0) table.stars.push(value.specifier);
      if (value.kind === 'object') for (const [name, member] of value.members) addNamed(table, name, member);
    }
  } else if (owner !== undefined && second?.type === 'ObjectExpression' && node.arguments.length === 2) {
    // __export(exports, { create: () => create }) of esbuild and swc.
    table.getters.set(owner, new Map([...(table.getters.get(owner) ?? []), ...gettersIn(second)]));
  } else if (isKeysForEach(node)) {
    // Babel: Object.keys(_other).forEach(function (key) { … exports … }).
    const source = keysOf(node, table);
    if (source !== undefined) table.stars.push(source);
  }
}

function isKeysForEach(node: Extract<Node, { type: 'CallExpression' }>): boolean {
  const { callee } = node;
  return (
    callee.type === 'MemberExpression' &&
    keyOf(callee.property, callee.computed) === 'forEach' &&
    callee.object.type === 'CallExpression' &&
    memberPath(callee.object.callee) === 'Object.keys'
  );
}

function keysOf(node: Extract<Node, { type: 'CallExpression' }>, table: Growing): string | undefined {
  const { callee } = node;
  if (callee.type !== 'MemberExpression' || callee.object.type !== 'CallExpression') return undefined;
  const of = argument(callee.object.arguments, 0);
  const value = of && borrowed(meant(of), table);
  return value?.kind === 'from' && value.names.length === 0 ? value.specifier : undefined;
}

/** The `x` of `() => x`, `function () { return x; }`. */
function handedOut(node: Node): Expression | undefined {
  if (!isFunction(node) || node.params.length > 0 || !node.body) return undefined;
  if (node.body.type !== 'BlockStatement') return node.body;
  const [only, ...more] = node.body.body;
  return only?.type === 'ReturnStatement' && more.length === 0 ? (only.argument ?? undefined) : undefined;
}

// Both

function meant(expression: Expression | Class): Value {
  const required = requiredFrom(expression as Expression);
  if (required !== undefined) return from(required);
  const value = core(expression);
  if (value.type === 'Identifier')
    return value.name === 'exports' ? { kind: 'export', names: [] } : local(value.name);
  if (value.type === 'MemberExpression') {
    const key = keyOf(value.property, value.computed);
    if (key === undefined || key.startsWith('#')) return unknown;
    if (memberPath(value) === 'exports') return { kind: 'export', names: [] };
    const owner = meant(value.object as Expression);
    return owner.kind === 'object' || owner.kind === 'here' ? unknown : within(owner, [key]);
  }
  if (value.type === 'ObjectExpression') {
    const members = new Map<string, Value>();
    const spreads: Value[] = [];
    for (const each of value.properties) {
      if (each.type === 'SpreadElement') spreads.push(meant(each.argument));
      else {
        const key = keyOf(each.key, each.computed);
        if (key === undefined) continue;
        const given = each.kind === 'get' ? handedOut(each.value) : each.value;
        members.set(key, given && each.kind !== 'set' ? meant(given) : unknown);
      }
    }
    return { kind: 'object', members, spreads };
  }
  const inner = requiredFrom(value as Expression);
  return inner === undefined
    ? { kind: 'here', isFunction: isFunction(value) || isClass(value) }
    : from(inner);
}

function nameOf(node: Node): string {
  if (node.type === 'Identifier') return node.name;
  return node.type === 'Literal' ? String(node.value) : '';
}
