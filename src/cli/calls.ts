import { basename, dirname, resolve } from 'node:path';
import type { Expression, Node, Program } from 'oxc-parser';
import { subjectOf } from '../capture/report.ts';
import { ownFunctions } from '../capture/source/find.ts';
import { sourceOf } from '../capture/source/source-files.ts';
import {
  children,
  core,
  isClass,
  isFunction,
  keyOf,
  memberPath,
  requiredFrom,
  walk,
} from '../capture/source/syntax.ts';
import { resolveOwnFile } from '../capture/source/target-files.ts';

// Which functions of an application call each other, according to the source text.

/** Their subjects start with the same word: `ORDER_CREATED` and `ORDER_ITEM_INSERTED`. */
export function isAboutSame(one: string, other: string): boolean {
  const firstOf = (type: string): string => (subjectOf(type).split(' ')[0] ?? '').replace(/s$/, '');
  return firstOf(one) !== '' && firstOf(one) === firstOf(other);
}

/** A parsed file. */
export interface Source {
  readonly file: string;
  readonly program: Program;
}

type Functions = ReturnType<typeof ownFunctions>['functions'];

export interface OwnSource extends Source {
  readonly text: string;
  readonly functions: Functions;
  /** Private methods, which no target can name. */
  readonly hidden: Functions;
  readonly sources: Sources;
}

interface Place {
  readonly file: string;
  readonly path: string;
}

const idOf = ({ file, path }: Place): string => `${file}#${path}`;

/** Limit of cached trees: a tree is some hundred times as large as its text. */
const maxTrees = 300;

/** The files of an application and the calls between their functions. */
export class Sources {
  readonly #trees = new Map<string, OwnSource | undefined>();
  readonly #byName = new Map<string, Place[]>();
  /** Caller -> called functions, each with whether the caller returns its result. */
  readonly #calls = new Map<string, Map<string, boolean>>();
  readonly #callers = new Map<string, Set<string>>();
  readonly #reached = new Map<string, ReadonlyMap<string, boolean>>();
  functionCount = 0;

  constructor(files: readonly string[]) {
    for (const file of files) {
      const { functions, hidden } = this.read(file) ?? { functions: [], hidden: [] };
      this.functionCount += functions.length;
      for (const { path } of [...functions, ...hidden]) {
        const name = path.split('.').at(-1) ?? '';
        this.#byName.set(name, [...(this.#byName.get(name) ?? []), { file, path }]);
      }
    }
  }

  /** `undefined`: the file is gone or cannot be parsed. */
  read(file: string): OwnSource | undefined {
    if (this.#trees.has(file)) return this.#trees.get(file);
    const [oldest] = this.#trees.keys();
    if (oldest !== undefined && this.#trees.size >= maxTrees) this.#trees.delete(oldest);
    let source: OwnSource | undefined;
    try {
      const text = sourceOf(file) ?? '';
      const { program, functions } = ownFunctions(file, text);
      source = program && { file, program, text, functions, hidden: privateMethods(program), sources: this };
    } catch {
      source = undefined;
    }
    this.#trees.set(file, source);
    return source;
  }

  /** The functions that a call may refer to. */
  meantBy(callee: Node, from: Source): Place[] {
    const called = (pathOf(callee) ?? '').split('.');
    const last = called.at(-1) ?? '';
    const alias = called.length === 1 ? importOf(last, from)?.name : undefined;
    const named = [...new Set([last, alias])].flatMap((name) => this.#byName.get(name ?? '') ?? []);
    return named.filter((place) => isCallOf(callee, from, place));
  }

  /** The name of a function for the methods below. */
  readonly idOf = idOf;

  followCalls(source: OwnSource): void {
    const all = [...source.functions, ...source.hidden];
    const paths = new Map<Node, string>(all.map(({ path, node }) => [node, path]));
    const open: [node: Node, within: string, isReturned: boolean][] = [[source.program, '', false]];
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      const [node, outer, isReturned] = next;
      const within = paths.get(node) ?? outer;
      if (node.type === 'CallExpression') {
        this.#note(source, within, node.callee, isReturned);
        // `router.post('/orders', createOrder)` will call it.
        if (within === '')
          for (const each of node.arguments)
            if (memberPath(each) !== undefined) this.#note(source, within, each, false);
      }
      const hands =
        node.type === 'ReturnStatement' ||
        ((node.type === 'AwaitExpression' || node.type === 'ParenthesizedExpression') && isReturned);
      const body = node.type === 'ArrowFunctionExpression' ? node.body : undefined;
      for (const child of children(node)) open.push([child, within, hands || child === body]);
    }
  }

  #note(source: Source, within: string, callee: Node, isReturned: boolean): void {
    const caller = idOf({ file: source.file, path: within });
    for (const place of this.meantBy(callee, source)) {
      const called = idOf(place);
      if (called === caller) continue;
      const calls = this.#calls.get(caller) ?? new Map<string, boolean>();
      this.#calls.set(caller, calls.set(called, isReturned || calls.get(called) === true));
      this.#callers.set(called, (this.#callers.get(called) ?? new Set()).add(caller));
    }
  }

  callersOf(id: string): ReadonlySet<string> {
    return this.#callers.get(id) ?? new Set();
  }

  /**
   * Everything that a function calls, directly or not, each with whether its result is returned. Call after `followCalls` for all files.
   */
  reachedFrom(id: string): ReadonlyMap<string, boolean> {
    const known = this.#reached.get(id);
    if (known !== undefined) return known;
    const reached = new Map<string, boolean>();
    const open: [id: string, isReturned: boolean][] = [[id, true]];
    for (let next = open.shift(); next !== undefined; next = open.shift())
      for (const [called, isReturned] of this.#calls.get(next[0]) ?? []) {
        if (reached.has(called) || called === id) continue;
        reached.set(called, next[1] && isReturned);
        open.push([called, next[1] && isReturned]);
      }
    this.#reached.set(id, reached);
    return reached;
  }
}

/** Also `(0, repository_1.insert)(order)`, as compilers write it. */
const pathOf = (callee: Node): string | undefined => memberPath(core(callee as Expression));

function privateMethods(program: Program): Functions {
  return [...walk([program])].flatMap((node) => {
    if (!isClass(node) || !node.id) return [];
    const { name } = node.id;
    return node.body.body.flatMap((member) => {
      if (member.type !== 'MethodDefinition' && member.type !== 'PropertyDefinition') return [];
      const key = keyOf(member.key, member.computed);
      const value = member.value && core(member.value as Expression);
      return key?.startsWith('#') && value && isFunction(value)
        ? [{ path: `${name}.prototype.${key}`, node: value }]
        : [];
    });
  });
}

/** Compares names: `this.orders.insert()` calls `OrderRepository.prototype.insert` if the field has that class, or a similar name. */
export function isCallOf(callee: Node, from: Source, { file, path }: Place): boolean {
  const called = pathOf(callee)?.split('.') ?? [];
  const names = path
    .replace(/\(\)/g, '')
    .split('.')
    .filter((each) => each !== 'prototype');
  const [last, holder] = [called.at(-1), called.at(-2)];
  const [name, owner] = [names.at(-1), names.at(-2)];
  if (last === undefined) return false;
  const imported = (local: string): string | undefined => {
    const found = importOf(local, from);
    return found !== undefined && isFileOf(found.specifier, from.file, file) ? found.name : undefined;
  };
  if (holder === undefined) {
    if (owner !== undefined) return false;
    return from.file === file && last === name ? true : imported(last) === name;
  }
  if (last !== name) return false;
  if (owner === undefined || owner === 'default') {
    if (holder === 'exports') return from.file === file;
    return /^(?:\*|default)$/.test(imported(holder) ?? '');
  }
  if (holder === 'this') return from.file === file && classOf(callee, from.program) === owner;
  const type = typeNameOf(holder, from.program);
  const [low, held] = [owner.toLowerCase(), holder.replace(/^[#_]+/, '').toLowerCase()];
  if (type !== undefined) return type === owner || imported(type) === owner;
  return low === held || (held.length > 2 && low.includes(held.replace(/s$/, '')));
}

/** Resolves an imported name: its name in the other file, or `*` for the namespace. */
function importOf(
  local: string,
  { program }: Source,
): { readonly specifier: string; readonly name: string } | undefined {
  for (const statement of program.body) {
    if (statement.type === 'ImportDeclaration') {
      const each = statement.specifiers.find((one) => one.local.name === local);
      if (each === undefined) continue;
      const specifier = statement.source.value;
      if (each.type !== 'ImportSpecifier')
        return { specifier, name: each.type === 'ImportNamespaceSpecifier' ? '*' : 'default' };
      const { imported } = each;
      return { specifier, name: imported.type === 'Identifier' ? imported.name : imported.value };
    }
    if (statement.type !== 'VariableDeclaration') continue;
    for (const { id, init } of statement.declarations) {
      const member = init?.type === 'MemberExpression' ? init : undefined;
      const specifier = init ? requiredFrom(member?.object ?? (init as never)) : undefined;
      if (specifier === undefined) continue;
      const ofMember = member && keyOf(member.property, member.computed);
      if (id.type === 'Identifier' && id.name === local) return { specifier, name: ofMember ?? '*' };
      if (id.type !== 'ObjectPattern' || member !== undefined) continue;
      for (const each of id.properties) {
        if (each.type !== 'Property' || each.value.type !== 'Identifier' || each.value.name !== local)
          continue;
        const name = keyOf(each.key, each.computed);
        if (name !== undefined) return { specifier, name };
      }
    }
  }
  return undefined;
}

/** The place in the application's own file that a name is imported from. */
export function importedFrom(local: string, source: Source): Place | undefined {
  const found = importOf(local, source);
  const file = found && fileOf(found.specifier, source.file);
  return found && file !== undefined ? { file, path: found.name } : undefined;
}

function fileOf(specifier: string, from: string): string | undefined {
  if (!specifier.startsWith('.')) return undefined;
  const found = resolveOwnFile(resolve(dirname(from), specifier), dirname(from));
  return typeof found === 'string' ? found : undefined;
}

/** Whether an import refers to a file: directly, through the `index` of its folder, or by a path alias such as `@/orders/repository`. */
function isFileOf(specifier: string, from: string, file: string): boolean {
  if (specifier.startsWith('.')) {
    const found = fileOf(specifier, from);
    if (found === undefined || found === file) return found === file;
    return /^index\./.test(basename(found)) && file.startsWith(`${dirname(found)}/`);
  }
  const [, tail] = /^[^/]*\/(.+?)(?:\.[cm]?[jt]sx?)?$/.exec(specifier) ?? [];
  return tail !== undefined && file.replace(/\.[cm]?[jt]sx?$/, '').endsWith(`/${tail}`);
}

const typeNames = new WeakMap<Program, Map<string, string>>();

/** The declared or constructed class of the field, parameter or variable with this name. */
function typeNameOf(name: string, program: Program): string | undefined {
  const known = typeNames.get(program);
  if (known !== undefined) return known.get(name);
  const found = new Map<string, string>();
  for (const node of walk([program])) {
    const [target, init] = declaredBy(node);
    if (target === undefined) continue;
    const own = keyOf(target, false) ?? memberPath(target)?.split('.').at(-1);
    if (own === undefined || found.has(own)) continue;
    const type = annotationOf(node) ?? annotationOf(target);
    if (type?.type === 'TSTypeReference' && type.typeName.type === 'Identifier')
      found.set(own, type.typeName.name);
    else if (init?.type === 'NewExpression' && init.callee.type === 'Identifier')
      found.set(own, init.callee.name);
  }
  typeNames.set(program, found);
  return found.get(name);
}

function declaredBy(node: Node): [Node | undefined, (Node | null)?] {
  if (node.type === 'PropertyDefinition') return [node.key, node.value];
  if (node.type === 'VariableDeclarator') return [node.id, node.init];
  if (node.type === 'AssignmentExpression') return [node.left, node.right];
  return [node.type === 'Identifier' && node.typeAnnotation ? node : undefined];
}

/** The class that contains a call. */
function classOf(inside: Node, program: Program): string | undefined {
  for (const node of walk([program]))
    if (isClass(node) && node.id && node.start <= inside.start && inside.end <= node.end) return node.id.name;
  return undefined;
}

export function annotationOf(node: Node): Node | undefined {
  const { typeAnnotation } = node as { typeAnnotation?: { typeAnnotation?: Node } | null };
  return typeAnnotation?.typeAnnotation;
}
