import type {
  CallExpression,
  Class,
  Expression,
  Function as FunctionNode,
  Node,
  ObjectExpression,
  Program,
} from 'oxc-parser';
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
  returnedExpression,
  specifiedName,
  stringOf,
} from './syntax.ts';

/** Distance to the module scope: 0 in it, 1 in a function that runs at once (a module wrapper), 2 deeper. */
type Tier = 0 | 1 | 2;

/** A hoisted function: its binding can be assigned at the top of its block. */
interface DeclaredFunction {
  readonly kind: 'declaration';
  readonly name: string;
  readonly tier: Tier;
  readonly node: FunctionNode;
  readonly at: number;
  /** `if (x) function f() {}` of sloppy code: no inserted statement can see it. */
  readonly isUnbraced?: true;
}

/** A value with a name: an initializer, the right side of an assignment, a default export, a class. */
export interface NamedValue {
  readonly kind: 'value';
  readonly name: string;
  readonly tier: Tier;
  readonly node: Expression | Class;
  /** The name that JavaScript infers for a nameless function here, if any. */
  readonly infers: string | undefined;
  /** `Order || (Order = {})` of a compiled namespace: not a definition if a class or function has this name. */
  readonly isMerge?: true;
}

export type Definition = DeclaredFunction | NamedValue;

/** The names of one file. CommonJS exports are under `exports.name`, `module.exports` itself under `exports`. */
export interface Definitions {
  readonly byName: Map<string, Definition[]>;
  /** Members that helper calls add to a class, such as `_define_property(Name, 'field', value)`, under `Name.field`. */
  readonly helperMembers: Map<string, NamedValue>;
  /** Exported name to local name. */
  readonly aliases: Map<string, string>;
  /** Names that another module defines, with its specifier if the text shows it. */
  readonly foreign: Map<string, string | undefined>;
  /** Names destructured from a value (`const { create } = makeService()`), with the value's text. */
  readonly parts: Map<string, string>;
  readonly stars: string[];
  /** Ends of statements with automatic semicolons: text appended there must start with one. */
  readonly openEnds: Set<number>;
}

interface Scope {
  readonly at: number;
  readonly tier: Tier;
}

export function scan(program: Program, text: string): Definitions {
  const found: Definitions = {
    byName: new Map(),
    helperMembers: new Map(),
    aliases: new Map(),
    foreign: new Map(),
    parts: new Map(),
    stars: [],
    openEnds: new Set(),
  };
  const atOnce = new Set<Node>();
  /** Named function and class expressions that are known by their assignment. */
  const named = new Set<Node>();

  const add = (name: string, definition: Definition) => {
    const list = found.byName.get(name);
    if (list) list.push(definition);
    else found.byName.set(name, [definition]);
  };

  const merges = new Set<Node>();
  const unbraced = new Set<Node>();

  const addValue = (
    name: string,
    value: Expression | Class,
    scope: Scope,
    infers: boolean,
    isMerge = false,
  ) => {
    const inner = core(value);
    if (isNothing(inner)) return;
    if ((isFunction(inner) || isClass(inner)) && inner.id?.name === name) named.add(inner);
    add(name, {
      ...{ kind: 'value', name, tier: scope.tier, node: value, infers: infers ? name : undefined },
      ...(isMerge && { isMerge }),
    });
  };

  const visitAssigned = (target: Node, value: Expression, scope: Scope, isMerge: boolean) => {
    const name = memberPath(target);
    if (name === undefined || isReassigned(name, value)) return;
    addValue(name, value, scope, target.type === 'Identifier', isMerge);
  };

  const visitDeclared = (pattern: Node, value: Expression, scope: Scope) => {
    const source = requiredFrom(value);
    if (pattern.type === 'Identifier') {
      if (source === undefined) addValue(pattern.name, value, scope, true);
      else found.foreign.set(pattern.name, source);
    } else if (pattern.type === 'ObjectPattern') {
      for (const property of pattern.properties) {
        const target = property.type === 'Property' ? property.value : undefined;
        if (target?.type !== 'Identifier') continue;
        if (source === undefined)
          found.parts.set(target.name, text.slice(value.start, Math.min(value.end, value.start + 60)));
        else found.foreign.set(target.name, source);
      }
    }
  };

  // A loop with a stack, the next node at the end: a sum of thousands of parts is as deep as it is long.
  const open: Node[] = [];
  const scopes: Scope[] = [];
  const later = (node: Node, scope: Scope) => {
    open.push(node);
    scopes.push(scope);
  };
  /** `for (let i = () => {}; ;)`: its semicolon is not an automatic one. */
  const forParts = new Set<Node>();

  const visit = (node: Node, scope: Scope): void => {
    let inner = scope;
    switch (node.type) {
      case 'FunctionDeclaration':
        if (node.id && node.body)
          add(node.id.name, {
            kind: 'declaration',
            name: node.id.name,
            tier: scope.tier,
            node,
            at: scope.at,
            ...(unbraced.has(node) && { isUnbraced: true as const }),
          });
        break;
      case 'IfStatement':
        for (const branch of [node.consequent, node.alternate])
          if (branch?.type === 'FunctionDeclaration') unbraced.add(branch);
        break;
      case 'FunctionExpression':
      case 'ClassExpression':
        if (node.id && !named.has(node)) addValue(node.id.name, node, scope, false);
        break;
      case 'ClassDeclaration':
        if (node.id) addValue(node.id.name, node, scope, false);
        break;
      case 'VariableDeclarator':
        if (node.init) visitDeclared(node.id, node.init, scope);
        break;
      case 'AssignmentExpression':
        if (/^(=|\|\|=|&&=|\?\?=)$/.test(node.operator))
          visitAssigned(node.left, node.right, scope, merges.has(node) || isDefaulted(node));
        if (merges.has(node) && node.right.type === 'AssignmentExpression') merges.add(node.right);
        break;
      case 'LogicalExpression':
        // `0 && (module.exports = { … })` only tells Node's lexer the export names.
        if (node.operator === '&&' && node.left.type === 'Literal' && node.left.value === 0) return;
        if (node.operator !== '&&') for (const each of mergesIn(node.left, node.right)) merges.add(each);
        break;
      case 'ForStatement':
        if (node.init) forParts.add(node.init);
        break;
      case 'CallExpression': {
        scanCall(node, found);
        const ran = immediate(node.callee);
        if (ran) for (const each of [ran, ...node.arguments]) atOnce.add(bare(each as Expression));
        break;
      }
      case 'ExportDefaultDeclaration': {
        const value = node.declaration;
        if (value.type === 'FunctionDeclaration' && !value.id)
          add('default', { kind: 'declaration', name: 'default', tier: 0, node: value, at: scope.at });
        else if (isValue(value)) addValue('default', value, scope, true);
        else scanExport(node, found);
        break;
      }
      case 'BlockStatement':
        inner = { at: node.start + 1, tier: scope.tier };
        break;
      case 'TSModuleBlock':
        inner = { at: node.start + 1, tier: 2 };
        break;
      case 'SwitchCase':
        inner = { at: node.consequent[0]?.start ?? scope.at, tier: scope.tier };
        break;
      case 'StaticBlock':
        inner = { at: text.indexOf('{', node.start) + 1, tier: 2 };
        break;
      default:
        scanExport(node, found);
    }
    if (!forParts.has(node)) noteOpenEnd(node, text, found.openEnds);
    if (isFunction(node)) {
      visitFunction(node, scope);
      return;
    }
    const below = children(node);
    for (let index = below.length - 1; index >= 0; index--) later(below[index] as Node, inner);
  };

  const visitFunction = (
    node: FunctionNode | Extract<Node, { type: 'ArrowFunctionExpression' }>,
    scope: Scope,
  ) => {
    const tier: Tier = atOnce.has(node) && scope.tier < 2 ? 1 : 2;
    const { body } = node;
    const around: Scope = { at: scope.at, tier };
    if (body?.type === 'BlockStatement') {
      const inside: Scope = { at: afterDirectives(body.body, body.start + 1), tier };
      for (const child of [...body.body].reverse()) later(child, inside);
    } else if (body) later(body, around);
    for (const child of children(node).reverse()) if (child !== body) later(child, around);
  };

  const top: Scope = { at: afterDirectives(program.body, firstLineEnd(text)), tier: 0 };
  for (const child of [...program.body].reverse()) later(child, top);
  for (let node = open.pop(); node !== undefined; node = open.pop()) visit(node, scopes.pop() as Scope);
  return found;
}

/** Whether `export default` exports an unnamed value; others are found under their names. */
function isValue(node: Node): node is Expression | Class {
  if (node.type === 'ClassDeclaration') return !node.id;
  return !(
    node.type === 'FunctionDeclaration' ||
    node.type === 'Identifier' ||
    node.type === 'TSInterfaceDeclaration'
  );
}

/** `f = decorate(…, f)` wraps the old `f`, and `module.exports.f = exports.f` changes nothing: neither is a definition. */
function isReassigned(name: string, value: Expression): boolean {
  const call = core(value);
  if (memberPath(call) === name) return true;
  return (
    call.type === 'CallExpression' &&
    call.arguments.some((each) => each.type === 'Identifier' && each.name === name)
  );
}

/** `X || (X = {})`, `X || (exports.X = X = {})`: the assignments in it. */
function mergesIn(left: Expression, right: Expression): Node[] {
  const name = memberPath(left);
  const assigned: Node[] = [];
  const names: (string | undefined)[] = [];
  let value = bare(right);
  while (value.type === 'AssignmentExpression' && value.operator === '=') {
    assigned.push(value);
    names.push(memberPath(value.left));
    value = bare(value.right);
  }
  const isMerge = name !== undefined && names.includes(name) && isEmptyObject(value);
  return isMerge ? assigned : [];
}

/** `X ||= {}`, `X ??= {}`. */
function isDefaulted(node: Extract<Node, { type: 'AssignmentExpression' }>): boolean {
  return /^(\|\||\?\?)=$/.test(node.operator) && isEmptyObject(bare(node.right));
}

const isEmptyObject = (node: Node): boolean =>
  node.type === 'ObjectExpression' && node.properties.length === 0;

/** The function that a call runs at once: `(function () {…})()`, `(() => {…}).call(this)`. */
function immediate(callee: Expression): Node | undefined {
  const direct = bare(callee);
  if (isFunction(direct)) return direct;
  if (direct.type !== 'MemberExpression') return undefined;
  const owner = bare(direct.object as Expression);
  return /\.(call|apply)$/.test(`.${memberPath(direct.property) ?? ''}`) && isFunction(owner)
    ? owner
    : undefined;
}

const endings = new Set<Node['type']>([
  'VariableDeclaration',
  'ExpressionStatement',
  'PropertyDefinition',
  'AccessorProperty',
  'ExportDefaultDeclaration',
  'TSExportAssignment',
  'ReturnStatement',
  'ThrowStatement',
]);

function noteOpenEnd(node: Node, text: string, openEnds: Set<number>): void {
  if (endings.has(node.type) && text[node.end - 1] !== ';') openEnds.add(node.end);
}

function afterDirectives(body: readonly Node[], start: number): number {
  let at = start;
  for (const node of body) {
    if (node.type !== 'ExpressionStatement' || typeof node.directive !== 'string') break;
    at = node.end;
  }
  return at;
}

/** After a byte order mark and a `#!` line, on the same line as the following text. */
function firstLineEnd(text: string): number {
  return /^\uFEFF?(?:#![^\n\r\u2028\u2029]*(?:\r\n|[\n\r\u2028\u2029]))?/.exec(text)?.[0].length ?? 0;
}

function scanCall(node: CallExpression, found: Definitions): void {
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

/** `__export(target, { default: () => main, create: () => create2 })` of esbuild, and the equivalents of swc and rolldown. */
function noteExportMap(map: ObjectExpression, found: Definitions): void {
  const entries: [string, Expression][] = [];
  for (const property of map.properties) {
    if (property.type !== 'Property') return;
    const name = keyOf(property.key, property.computed);
    const value = returnedExpression(property.value);
    if (name === undefined || !value || memberPath(value) === undefined) return;
    entries.push([name, value]);
  }
  for (const [name, value] of entries) noteGetter(name, value, found);
}

function noteGetter(name: string, value: Expression | undefined, found: Definitions): void {
  if (value?.type === 'Identifier') {
    if (value.name !== name && !found.aliases.has(name)) found.aliases.set(name, value.name);
  } else if (value?.type === 'MemberExpression') {
    // `orders_1.create`: re-exported from `require`.
    const owner = memberPath(value.object) ?? '';
    if (found.foreign.has(owner)) found.foreign.set(name, found.foreign.get(owner));
  }
}

function getterOf(descriptor: ObjectExpression): Expression | undefined {
  const getter = propertyOf(descriptor, 'get');
  return getter && returnedExpression(getter);
}

function scanExport(node: Node, found: Definitions): void {
  switch (node.type) {
    case 'ImportDeclaration':
      for (const specifier of node.specifiers) found.foreign.set(specifier.local.name, node.source.value);
      break;
    case 'ExportAllDeclaration':
      if (node.exported) found.foreign.set(specifiedName(node.exported), node.source.value);
      else found.stars.push(node.source.value);
      break;
    case 'ExportNamedDeclaration':
      for (const specifier of node.specifiers) {
        const exported = specifiedName(specifier.exported);
        const local = specifiedName(specifier.local);
        if (node.source) found.foreign.set(exported, node.source.value);
        else if (local !== exported) found.aliases.set(exported, local);
      }
      break;
    case 'ExportDefaultDeclaration': {
      const value = node.declaration;
      if (value.type === 'Identifier') found.aliases.set('default', value.name);
      else if ('id' in value && value.id?.type === 'Identifier') found.aliases.set('default', value.id.name);
      break;
    }
    case 'TSExportAssignment':
      if (node.expression.type === 'Identifier') found.aliases.set('default', node.expression.name);
      break;
    default:
  }
}
