import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import type { Class, Expression, Node, ObjectExpression, Program, VariableDeclarator } from 'oxc-parser';
import { didYouMean, inEachForm } from '../../ground/names.ts';
import { findPaths } from './find.ts';
import { isEsModule, parse } from './parse-text.ts';
import { resolveSpecifier } from './resolve-specifier.ts';
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
import { type Found, isProblem, type Problem } from './wrapper-place.ts';

// Follows an export of a package to the file that defines it, which svc changes like an own file.

export interface Definition {
  readonly file: string;
  readonly isModule: boolean;
  /** The path to the function in the file's text; `undefined` if the text does not show it. */
  readonly names: readonly string[] | undefined;
  /** The file's own export path, if it is CommonJS. */
  readonly exported: readonly string[] | undefined;
  /** The name in an ES module's scope that can be assigned. */
  readonly isAssignable: boolean;
  /** A guess inside the whole export of a module: it exists only if the text shows it. */
  readonly isGuess?: boolean;
}

type Names = readonly string[];

/** The search ends after this many files. Real chains are shorter. */
const maxFiles = 400;

/** Follows exports across files. Each file is read once. */
export interface Follower {
  /** The definitions of an export; several if a condition decides which file is loaded. */
  follow(entry: string, names: Names): Definition[];
  /** The message for a name that an ES module does not export. */
  missing(entry: string, names: Names): string;
}

export function follower(): Follower {
  const tables = new Map<string, ReturnType<typeof read>>();
  let left = maxFiles;

  const readOf = (file: string, names: Names): ReturnType<typeof read> => {
    const known = tables.get(file);
    if (known !== undefined || tables.has(file)) return known;
    if (left-- <= 0) return undefined;
    const made = read(file, names);
    // A shortened tree is not kept: another path may need other parts.
    if (made === undefined || isProblem(made) || !made.isPart) tables.set(file, made);
    return made;
  };
  const tableOf = (file: string, names: Names): ExportTable | undefined => {
    const made = readOf(file, names);
    return made === undefined || isProblem(made) ? undefined : made;
  };

  const exportOf = (file: string, names: Names, seen: Set<string>): Definition[] => {
    const key = `${file}\n${names.join('.')}`;
    if (seen.has(key)) return [];
    seen.add(key);
    const table = tableOf(file, names);
    if (table === undefined) return [];
    const [head, ...rest] = names;
    if (head === undefined) return wholeOf(file, table, [], seen);
    const named = table.named.get(head);
    if (named !== undefined) {
      const found = unique(named.flatMap((value) => behind(file, table, value, rest, names, seen)));
      if (found.length > 0 || table.isModule) return found;
    }
    const starred = throughStars(file, table, names, seen);
    if (starred.length > 0) return starred;
    if (!table.isModule) {
      if (head === 'default') {
        // `import x from` a CommonJS module gives its exports.
        const whole = table.whole.length > 0 ? wholeOf(file, table, rest, seen) : exportOf(file, rest, seen);
        if (whole.length > 0) return whole;
      }
      const inWhole = table.whole.flatMap((value) => {
        // `module.exports = Stripe`, requested as `Stripe`.
        const isItself = value.kind === 'local' && value.names.length === 0 && value.name === head;
        const path = isItself ? rest : names;
        if (value.kind === 'here') return [];
        const found = behind(file, table, value, path, path, seen);
        return isItself || value.kind === 'from' || value.kind === 'object' ? found : guessed(found);
      });
      if (inWhole.length > 0) return unique(inWhole);
    }
    // `export default { send() {} }`: its functions are requested by their own names.
    if (head !== 'default' && table.named.has('default')) {
      const value = table.named.get('default')?.[0];
      const isItself = value?.kind === 'local' && value.name === head;
      if (value?.kind === 'local' || value?.kind === 'object' || value?.kind === 'from')
        return guessed(exportOf(file, ['default', ...(isItself ? rest : names)], seen));
    }
    return [];
  };

  const wholeOf = (file: string, table: ExportTable, rest: Names, seen: Set<string>): Definition[] =>
    table.isModule
      ? []
      : unique(table.whole.flatMap((value) => behind(file, table, value, rest, rest, seen)));

  const throughStars = (file: string, table: ExportTable, names: Names, seen: Set<string>): Definition[] => {
    const [head = ''] = names;
    if (head === 'default') return [];
    for (const specifier of likeliestFirst(table.stars, head)) {
      const next = resolveSpecifier(specifier, file, table.isModule ? 'import' : 'require');
      if (next === undefined || !mayExport(next, head)) continue;
      const found = exportOf(next, names, seen).filter(({ isGuess }) => !isGuess);
      if (found.length > 0) return found;
    }
    return [];
  };

  /** Skips parsing: a module without the word cannot export the name. */
  const mayExport = (file: string, head: string): boolean => {
    if (tables.has(file)) return true;
    try {
      const text = readFileSync(file, 'utf8');
      return text.includes(head) || /export\s*\*|export_?star|reexport|require\s*\(|forEach/i.test(text);
    } catch {
      return false;
    }
  };

  const behind = (
    file: string,
    table: ExportTable,
    value: Value,
    rest: Names,
    exported: Names,
    seen: Set<string>,
  ): Definition[] => {
    const here = (names: Names | undefined, isAssignable = false): Definition[] => [
      {
        file,
        isModule: table.isModule,
        names,
        exported: table.isModule ? undefined : exported,
        isAssignable,
      },
    ];
    switch (value.kind) {
      case 'from': {
        const next = resolveSpecifier(value.specifier, file, table.isModule ? 'import' : 'require');
        return next === undefined ? [] : exportOf(next, [...value.names, ...rest], seen);
      }
      case 'export': {
        const names = [...value.names, ...rest];
        return names.length === 0 ? wholeOf(file, table, [], seen) : exportOf(file, names, seen);
      }
      case 'local': {
        const lent = table.borrowed.get(value.name);
        if (lent !== undefined) return behind(file, table, within(lent, value.names), rest, exported, seen);
        // `const api = { send }; export default api`: one function under two names must stay one.
        const [head, ...more] = [...value.names, ...rest];
        const member = head === undefined ? undefined : table.objects.get(value.name)?.get(head);
        if (member?.kind === 'local' || member?.kind === 'from') {
          const found = behind(file, table, member, more, exported, seen);
          if (found.length > 0) return found;
        }
        return here([value.name, ...value.names, ...rest], table.assignable.has(value.name));
      }
      case 'object': {
        const [head, ...more] = rest;
        const member = head === undefined ? undefined : value.members.get(head);
        if (member !== undefined) {
          const found = behind(file, table, member, more, exported, seen);
          if (found.length > 0) return found;
        }
        if (member === undefined)
          for (const spread of value.spreads) {
            const found = behind(file, table, spread, rest, exported, seen);
            if (found.length > 0) return found;
          }
        return member === undefined ? [] : here(inText(table, exported));
      }
      case 'here':
        // `module.exports = make()`: its inner names are known only after it has run.
        if (table.isModule || value.isFunction) return here(inText(table, exported));
        // Nor is it known which names share one function.
        return here(exported.length > rest.length ? inText(table, exported) : undefined);
    }
  };

  return {
    follow(entry, names) {
      left = maxFiles;
      let found: Definition[] = [];
      for (const form of inEachForm(names.join('.'))) {
        found = exportOf(entry, form.split('.'), new Set()).filter((each) => !each.isGuess || isShown(each));
        if (found.length > 0) break;
      }
      const isModule = tableOf(entry, names)?.isModule ?? isEsModule(entry);
      // A CommonJS module may compute its exports, which only running it shows.
      if (found.length === 0 && !isModule)
        return [{ file: entry, isModule: false, names: undefined, exported: names, isAssignable: false }];
      return found;
    },
    missing(entry, names) {
      const [head = ''] = names;
      const table = readOf(entry, names);
      if (table === undefined) return 'the package cannot be read';
      if (isProblem(table)) return `the package cannot be read: ${table.problem}`;
      return `the module has no export ${head}${didYouMean(head, [...table.named.keys()])}`;
    },
  };
}

/** The path of an export in the file's text: in CommonJS, of the assignment to `exports`. */
function inText(table: ExportTable, exported: Names): Names {
  return table.isModule ? exported : ['exports', ...exported];
}

const guessed = (found: readonly Definition[]): Definition[] =>
  found.map((each) => ({ ...each, isGuess: true }));

function isShown({ file, names, isModule }: Definition): boolean {
  if (names === undefined) return false;
  const text = readFileSync(file, 'utf8');
  const kind = { goal: isModule ? 'module' : 'unknown', typed: false } as const;
  const all = findPaths(file, text, kind, [names.join('.')]);
  const found = isProblem(all) ? all : (all.found[0] as Found | Problem);
  if (isProblem(found)) return false;
  // A path into a value that the text does not show is a guess too.
  return (
    isModule || found.shown !== undefined || found.place.form !== 'value' || found.place.path.length === 0
  );
}

/** Words that lead to other files. */
const ways = ['import', 'export', 'exports', 'module', 'require'];

function read(
  file: string,
  names: Names,
): (ExportTable & { readonly isPart: boolean }) | Problem | undefined {
  if (!/\.[cm]?js$/.test(file)) return undefined;
  const text = readFileSync(file, 'utf8');
  const kind = { goal: file.endsWith('.mjs') ? 'module' : 'unknown', typed: false } as const;
  const whole = parse(file, text, kind);
  if (!isProblem(whole)) return { ...readExports(whole.program), isPart: false };
  // Too large to be parsed as a whole: parse only what leads to this export.
  const part = parse(file, text, kind, { names: [...ways, ...names], keepsNames: true });
  return isProblem(part) ? whole : { ...readExports(part.program), isPart: true };
}

function likeliestFirst(specifiers: readonly string[], name: string): string[] {
  const plain = (text: string) => text.toLowerCase().replace(/[^a-z0-9]/g, '');
  const wanted = plain(name);
  const stem = (specifier: string) => plain(basename(specifier).replace(/\.[cm]?js$/, ''));
  const rank = (specifier: string) => {
    const own = stem(specifier);
    return own === wanted ? 0 : own !== '' && (wanted.includes(own) || own.includes(wanted)) ? 1 : 2;
  };
  return [...specifiers].sort((one, other) => rank(one) - rank(other));
}

function unique(definitions: readonly Definition[]): Definition[] {
  return [...new Map(definitions.map((each) => [`${each.file}\n${each.names?.join('.')}`, each])).values()];
}

/** The meaning of an export, or of a name in the module. */
type Value =
  /** From another module. Empty `names` mean the module itself: a namespace or `module.exports`. */
  | { readonly kind: 'from'; readonly specifier: string; readonly names: readonly string[] }
  /** From this module: a name in its scope, and a path below it. */
  | { readonly kind: 'local'; readonly name: string; readonly names: readonly string[] }
  | { readonly kind: 'export'; readonly names: readonly string[] }
  | {
      readonly kind: 'object';
      readonly members: ReadonlyMap<string, Value>;
      readonly spreads: readonly Value[];
    }
  /** A value written in place: a function, or something only known at run time. */
  | { readonly kind: 'here'; readonly isFunction: boolean };

interface ExportTable {
  readonly isModule: boolean;
  readonly named: ReadonlyMap<string, readonly Value[]>;
  /** `module.exports` itself. */
  readonly whole: readonly Value[];
  readonly stars: readonly string[];
  readonly borrowed: ReadonlyMap<string, Value>;
  /** Names in the module's scope that can be assigned. */
  readonly assignable: ReadonlySet<string>;
  readonly objects: ReadonlyMap<string, ReadonlyMap<string, Value>>;
}

interface Growing extends ExportTable {
  readonly named: Map<string, Value[]>;
  readonly whole: Value[];
  readonly stars: string[];
  readonly borrowed: Map<string, Value>;
  readonly assignable: Set<string>;
  readonly objects: Map<string, ReadonlyMap<string, Value>>;
  /** Getters that a helper defines, keyed by their object. */
  readonly getters: Map<string, Map<string, Value>>;
  /** The object behind `module.exports`: `module.exports = __toCommonJS(index_exports)` of esbuild. */
  madeOf: string;
}

function readExports(program: Program): ExportTable {
  const isModule = program.body.some(({ type }) => /^(Import|Export).*Declaration$/.test(type));
  const table: Growing = {
    isModule,
    named: new Map(),
    whole: [],
    stars: [],
    borrowed: new Map(),
    assignable: new Set(),
    objects: new Map(),
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
              ? [specifiedName(each.imported)]
              : [];
        table.borrowed.set(each.local.name, from(node.source.value, ...names));
      }
      break;
    case 'ExportAllDeclaration':
      if (node.exported) addNamed(table, specifiedName(node.exported), from(node.source.value));
      else table.stars.push(node.source.value);
      break;
    case 'ExportNamedDeclaration':
      for (const each of node.specifiers) {
        const name = specifiedName(each.local);
        addNamed(
          table,
          specifiedName(each.exported),
          node.source ? from(node.source.value, name) : local(name),
        );
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

function declared(node: Node, table: Growing): string[] {
  if ((node.type === 'FunctionDeclaration' || node.type === 'ClassDeclaration') && node.id) {
    table.assignable.add(node.id.name);
    return [node.id.name];
  }
  if (node.type !== 'VariableDeclaration') return [];
  return node.declarations.flatMap((each) => {
    const names = declaredBy(each, table);
    const value = node.kind === 'const' && each.init ? meant(each.init) : undefined;
    if (value?.kind === 'object' && each.id.type === 'Identifier')
      table.objects.set(each.id.name, value.members);
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

/** A value from another module; `undefined` for the module's own. */
function borrowed(value: Value, table: Growing): Value | undefined {
  if (value.kind === 'from') return value;
  const behind = value.kind === 'local' ? table.borrowed.get(value.name) : undefined;
  return behind === undefined || value.kind !== 'local' ? undefined : within(behind, value.names);
}

function within(value: Value, path: readonly string[]): Value {
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

/** `(function () {…})()`, `(() => {…}).call(this)`: code of this function and its arguments belongs to the module. */
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
  // `module.exports = exports = f`: the inner assignment is visited as well.
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
    const given = returnedExpression(property.value);
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
    const given = getter ? returnedExpression(getter) : propertyOf(descriptor, 'value');
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

// Both kinds of module

/** Compiler helpers that return the module they get: `__importDefault(fr_js_1).default`. */
const interop = /(?:^|\.)_*(?:import(?:Default|Star)|interop_?require\w*|toESM)(?:\._)?$/i;

function meant(expression: Expression | Class): Value {
  const required = requiredFrom(expression as Expression);
  if (required !== undefined) return from(required);
  const value = core(expression);
  if (value.type === 'CallExpression' && interop.test(memberPath(value.callee) ?? '')) {
    const given = argument(value.arguments, 0);
    if (given && bare(given).type === 'Identifier') return meant(given);
  }
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
        const given = each.kind === 'get' ? returnedExpression(each.value) : each.value;
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
