import type { Class, Expression, Node, Program } from 'oxc-parser';
import { finder } from './find.ts';
import type { Mapping } from './source-map.ts';
import {
  type AnyFunction,
  beforeStatics,
  children,
  core,
  type Definitions,
  isClass,
  isFunction,
  isNameless,
  keyOf,
} from './syntax.ts';
import { type Found, isProblem, type Place, type Problem } from './wrapper-place.ts';

/** Where a definition stands in its source. All offsets are those of the source's text. */
export interface Site {
  /** What the place is made for: the function itself, or a value that the text does not show to be one. */
  readonly kind: 'function' | 'value';
  /** The first character of the statement or member that defines it. */
  readonly start: number;
  readonly nameAt: number;
  readonly name: string;
  /** Where the head of the definition ends, and its body begins. */
  readonly bodyAt: number;
  readonly end: number;
  /** Leads from the value to the function. */
  readonly path: readonly string[];
}

/** The nodes from the program down to the smallest ones that hold the range; of two with one range, the outer one is first. */
function chainTo(program: Program, start: number, end: number): Node[] {
  const chain: Node[] = [program];
  for (let next: Node | undefined = program; next !== undefined; ) {
    next = children(next).find(
      (child) => child.start <= start && child.end >= end && child.end > child.start,
    );
    if (next !== undefined) chain.push(next);
  }
  return chain;
}

/** Where the source defines what was found in it. */
export function siteOf(program: Program, { place, shown }: Found): Site | undefined {
  const isIn =
    place.form !== 'value' ||
    (shown !== undefined &&
      (place.path.length === 0
        ? shown.start === place.start && shown.end === place.end
        : shown.start >= place.start && shown.end <= place.end));
  if (isIn && shown === undefined) return undefined;
  const { start, end } =
    isIn && shown !== undefined ? shown : place.form === 'value' ? place : { start: 0, end: 0 };
  const chain = chainTo(program, start, end);
  const at = chain.findIndex(
    (node) => node.start === start && node.end === end && (!isIn || isFunction(node)),
  );
  const node = chain[at];
  if (node === undefined) return undefined;
  const body = isFunction(node) ? node.body : undefined;
  const path = !isIn && place.form === 'value' ? place.path : [];
  const base = {
    kind: isIn ? 'function' : 'value',
    bodyAt: body?.start ?? node.start,
    end: node.end,
    path,
  } as const;
  if (node.type === 'FunctionDeclaration' && node.id)
    return { ...base, start: statementStart(chain, at), nameAt: node.id.start, name: node.id.name };
  for (let above = at - 1; above > 0; above--) {
    const named = nameIn(chain[above] as Node);
    if (named !== undefined)
      return { ...base, start: statementStart(chain, above), nameAt: named.start, name: nameOf(named) };
    // Behind a function, or in a block, there is no name that would be this definition's.
    const parent = chain[above] as Node;
    if (isFunction(parent) || /Statement$|^Program$/.test(parent.type)) break;
  }
  return { ...base, start: statementStart(chain, at), nameAt: node.start, name: '' };
}

/** The node that names what is defined here. */
function nameIn(node: Node): Node | undefined {
  switch (node.type) {
    case 'MethodDefinition':
    case 'PropertyDefinition':
    case 'AccessorProperty':
    case 'Property':
      return node.key;
    case 'VariableDeclarator':
      return node.id;
    case 'AssignmentExpression':
      return node.left.type === 'MemberExpression' ? node.left.property : node.left;
    default:
      return undefined;
  }
}

function nameOf(node: Node): string {
  return node.type === 'Identifier' || node.type === 'PrivateIdentifier' ? node.name : '';
}

/** With `export`, `const`, `static` and the like. */
function statementStart(chain: readonly Node[], at: number): number {
  let start = (chain[at] as Node).start;
  for (let above = at - 1; above > 0; above--) {
    const { type, start: next } = chain[above] as Node;
    const isFirst =
      type !== 'VariableDeclaration' ||
      (chain[above] as { declarations: Node[] }).declarations[0] === chain[above + 1];
    if (!/^(VariableDeclaration|Export\w+Declaration|ExpressionStatement)$/.test(type) || !isFirst) break;
    start = next;
  }
  return start;
}

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

/**
 * Where nobody has the text of the source: a map keeps the names that a minifier took away. The definition is looked for in the built text under
 * what it is called there, and its parameters get the names of the source back.
 */
export function findByNames(
  functionPath: string,
  mappings: readonly Mapping[],
  names: readonly string[],
  program: Program,
  text: string,
): Found | Problem {
  const { root, sourceNames, heads } = headsOf(functionPath, mappings, names, text);
  const find = finder(program, text);
  for (const local of new Set(heads.map(({ at }) => identifierAt(text, at)))) {
    const found = find(local + functionPath.slice(root.length));
    if (isProblem(found)) continue;
    const range = found.shown ?? (found.place.form === 'value' ? found.place : undefined);
    // One name is often used for several: what is found has to be made of this source.
    if (range === undefined || !mappings.some(({ at }) => at >= range.start && at < range.end)) continue;
    return { ...found, parameterNames: namesBefore(found, program, sourceNames) };
  }
  return {
    problem: `its source is neither there nor in the source map, whose names do not lead to ${functionPath}`,
  };
}

/** Where the built text says the first name of the path, as it was in the source. */
export function headsOf(
  functionPath: string,
  mappings: readonly Mapping[],
  names: readonly string[],
  text: string,
): {
  readonly root: string;
  readonly sourceNames: ReadonlyMap<number, string>;
  readonly heads: readonly Mapping[];
} {
  const sourceNames = new Map(mappings.map(({ at, name }) => [at, names[name] ?? identifierAt(text, at)]));
  const root = identifierAt(functionPath, 0);
  return { root, sourceNames, heads: mappings.filter(({ at }) => sourceNames.get(at) === root) };
}

function namesBefore(
  { parameterNames, parametersOf }: Found,
  program: Program,
  sourceNames: ReadonlyMap<number, string>,
): Found['parameterNames'] {
  if (parameterNames === undefined || parametersOf === undefined) return parameterNames;
  const node = chainTo(program, parametersOf.start, parametersOf.end).findLast(isFunction);
  return parameterNames.map((name, index) => {
    const parameter = node?.params[index];
    return name === '' || parameter === undefined ? name : (sourceNames.get(parameter.start) ?? name);
  });
}

function identifierAt(text: string, at: number): string {
  const identifier = /[\p{ID_Start}$_][\p{ID_Continue}$\u200c\u200d]*/uy;
  identifier.lastIndex = at;
  return identifier.exec(text)?.[0] ?? '';
}
