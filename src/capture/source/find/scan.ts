import type { Class, Expression, Function as FunctionNode, Node, Program } from 'oxc-parser';
import { type Definition, type Definitions, noDefinitions, type Tier } from './definitions.ts';
import { scanCall } from './scan-calls.ts';
import { scanExport } from './scan-exports.ts';
import { bare, children, core, isClass, isFunction, isNothing, memberPath, requiredFrom } from './syntax.ts';

interface Scope {
  readonly at: number;
  readonly tier: Tier;
}

/** Reads off a file which names it defines, and where. */
export function scan(program: Program, text: string): Definitions {
  const found = noDefinitions();
  const atOnce = new Set<Node>();
  /** Named function and class expressions that are already known by what they are assigned to. */
  const named = new Set<Node>();

  const add = (name: string, definition: Definition) => {
    const list = found.byName.get(name);
    if (list) list.push(definition);
    else found.byName.set(name, [definition]);
  };

  const addValue = (name: string, value: Expression | Class, scope: Scope, infers: boolean) => {
    const inner = core(value);
    if (isNothing(inner)) return;
    if ((isFunction(inner) || isClass(inner)) && inner.id?.name === name) named.add(inner);
    add(name, { kind: 'value', name, tier: scope.tier, node: value, infers: infers ? name : undefined });
  };

  const visitAssigned = (target: Node, value: Expression, scope: Scope) => {
    const name = memberPath(target);
    if (name === undefined || isReassigned(name, value)) return;
    addValue(name, value, scope, target.type === 'Identifier');
  };

  const visitDeclared = (pattern: Node, value: Expression, scope: Scope) => {
    const source = requiredFrom(value);
    if (pattern.type === 'Identifier') {
      if (source === undefined) addValue(pattern.name, value, scope, true);
      else found.foreign.set(pattern.name, source);
    } else if (pattern.type === 'ObjectPattern') {
      for (const property of pattern.properties) {
        const target = property.type === 'Property' ? property.value : undefined;
        if (target?.type === 'Identifier') found.foreign.set(target.name, source);
      }
    }
  };

  // A loop over what is still to be visited, the next one at the end: a sum of thousands of parts is as deep as it is long.
  const open: Node[] = [];
  const scopes: Scope[] = [];
  const later = (node: Node, scope: Scope) => {
    open.push(node);
    scopes.push(scope);
  };
  /** `for (let i = () => {}; ;)`: the semicolon there is not an automatic one. */
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
          });
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
        if (/^(=|\|\|=|&&=|\?\?=)$/.test(node.operator)) visitAssigned(node.left, node.right, scope);
        break;
      case 'LogicalExpression':
        // `0 && (module.exports = { … })` only tells Node's lexer the export names.
        if (node.operator === '&&' && node.left.type === 'Literal' && node.left.value === 0) return;
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
    // What stands before the body is visited first.
    for (const child of children(node).reverse()) if (child !== body) later(child, around);
  };

  const top: Scope = { at: afterDirectives(program.body, firstLineEnd(text)), tier: 0 };
  for (const child of [...program.body].reverse()) later(child, top);
  for (let node = open.pop(); node !== undefined; node = open.pop()) visit(node, scopes.pop() as Scope);
  return found;
}

/** What `export default` hands out as a value of its own; a name or a named function is found under its name. */
function isValue(node: Node): node is Expression | Class {
  if (node.type === 'ClassDeclaration') return !node.id;
  return !(
    node.type === 'FunctionDeclaration' ||
    node.type === 'Identifier' ||
    node.type === 'TSInterfaceDeclaration'
  );
}

/** `f = decorate(…, f)` puts something round what `f` was: it does not define it. */
function isReassigned(name: string, value: Expression): boolean {
  const call = core(value);
  return (
    call.type === 'CallExpression' &&
    call.arguments.some((each) => each.type === 'Identifier' && each.name === name)
  );
}

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

/** Behind a byte order mark and a `#!` line, on the same line as what follows. */
function firstLineEnd(text: string): number {
  return /^\uFEFF?(?:#![^\n\r\u2028\u2029]*(?:\r\n|[\n\r\u2028\u2029]))?/.exec(text)?.[0].length ?? 0;
}
