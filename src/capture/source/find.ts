import type {
  CallExpression,
  Class,
  ClassElement,
  Expression,
  Function as FunctionNode,
  NewExpression,
  Node,
  ObjectExpression,
  ObjectProperty,
  Program,
} from 'oxc-parser';
import { didYouMean, inEachForm } from '../../ground/names.ts';
import { parseFunctionPath, privateMethod } from './function-path.ts';
import type { Range } from './outline.ts';
import { lineAt, parse, type TextKind } from './parse-text.ts';
import {
  type AnyFunction,
  argument,
  bare,
  beforeStatics,
  children,
  core,
  isClass,
  isFunction,
  isNameless,
  isNothing,
  keyOf,
  memberPath,
  parameterNames,
  parametersOf,
  propertyOf,
  requiredFrom,
  returnedExpression,
  specifiedName,
  stringOf,
  walk,
  withNamingCall,
} from './syntax.ts';
import { behindGetter, type Found, isProblem, type Place, type Problem } from './wrapper-place.ts';

// Finds where a text defines the function of a target.

type Names = readonly string[];

/**
 * Prepares a parsed file once; the result finds function paths in it.
 *
 * @param asked records what the answers depend on
 */
export function finder(
  program: Program,
  text: string,
  asked?: Asked,
): (functionPath: string) => Found | Problem {
  const scanned = scan(program, text);
  const definitions = asked ? { ...scanned, byName: new NotedNames(scanned.byName, asked.names) } : scanned;
  const findOne = (functionPath: string) => find({ definitions, text, functionPath, seen: new Set(), asked });
  return (functionPath) => {
    const found = findOne(functionPath);
    if (!isProblem(found)) return found;
    for (const form of inEachForm(functionPath).slice(1)) {
      const other = findOne(form);
      if (!isProblem(other)) return other;
    }
    return found;
  };
}

class NotedNames<T> extends Map<string, T> {
  readonly #asked: Set<string>;

  constructor(names: ReadonlyMap<string, T>, asked: Set<string>) {
    super(names);
    this.#asked = asked;
  }

  override get(name: string): T | undefined {
    for (const word of wordsOf(name)) this.#asked.add(word);
    return super.get(name);
  }
}

/** Words too common to locate a definition. */
const common = new Set(['exports', 'module', 'prototype', 'this', '']);

/** The names in `createRepository().insert`, `exports.create`, `OrderService.prototype.create`. */
export const wordsOf = (path: string): string[] => path.split(/[.()]+/).filter((word) => !common.has(word));

/** How many times to follow a name to the next: an alias, a class from a factory, the object of a method. */
const maxRounds = 8;

function parametersIn(found: Found | Problem): Range[] {
  const own = isProblem(found) ? undefined : (found.parametersOf as AnyFunction | undefined);
  return own ? [{ start: own.start, end: own.body?.start ?? own.end }] : [];
}

const isCut = ({ start, end }: Range, parsed: string, text: string): boolean =>
  parsed !== text && parsed.slice(start, end) !== text.slice(start, end);

interface FoundPaths {
  /** For a longer text, only the parts that lead to the paths. */
  readonly program: Program;
  readonly found: readonly (Found | Problem)[];
  /** The end of the last statement, except in functions that were skipped; `undefined` without one. */
  readonly end: number | undefined;
}

export function findPaths(
  file: string,
  text: string,
  kind: TextKind,
  functionPaths: readonly string[],
): FoundPaths | Problem {
  const names = new Set(functionPaths.flatMap(wordsOf));
  const ranges: Range[] = [];
  let keepsNames = false;
  for (let round = 1; ; round++) {
    const parsed = parse(file, text, kind, { names, ranges, keepsNames });
    if (isProblem(parsed)) return parsed;
    const asked: Asked = { names: new Set(), factories: [] };
    const find = finder(parsed.program, text, asked);
    const found = functionPaths.map((each) => find(each));
    const known = names.size;
    for (const name of asked.names) names.add(name);
    const read = [...asked.factories, ...found.flatMap(parametersIn)];
    const cut = read.filter((each) => isCut(each, parsed.text, text));
    ranges.push(...cut);
    // A missing path may exist under another name, or in another file.
    const isToName: boolean = !keepsNames && found.some(isProblem);
    const isAll = names.size === known && cut.length === 0;
    if (parsed.isWhole || round === maxRounds || (isAll && !isToName))
      return { program: parsed.program, found, end: parsed.program.body.at(-1)?.end };
    if (!isToName || !isAll) continue;
    keepsNames = true;
    names.add('require');
  }
}

function find(question: Question): Found | Problem {
  const path = parseFunctionPath(question.functionPath);
  if (isProblem(path)) return path;
  const hit = findNames(question, path.names);
  if (isProblem(hit)) return hit;
  let shown: AnyFunction | undefined = hit.shown;
  if (path.result && hit.shown) {
    question.asked?.factories.push(hit.shown);
    const returned = findReturned(hit.shown, path.result, path.names.join('.'), question.definitions);
    if (isProblem(returned)) return returned;
    shown = returned.shown;
  } else if (path.result) shown = undefined;
  return {
    place: hit.place,
    parameterNames: shown && parameterNames(shown),
    parametersOf: shown,
    defaulted: shown && defaultedParameters(shown),
    shown: hit.shown,
  };
}

/** Finds the longest prefix of the path with a value in the file, then the rest inside that value. */
function findNames(question: Question, names: Names): Hit | Problem {
  const [first = '', ...more] = names;
  const alias = question.definitions.aliases.get(first);
  for (let length = names.length; length > 1; length--) {
    const head = names.slice(0, length).join('.');
    const local = alias === undefined ? [] : [[alias, ...more].slice(0, length).join('.')];
    const picked = pickPath(question, [head, ...local, `exports.${head}`]);
    if (picked) return isProblem(picked) ? picked : inside(question, picked, names.slice(length));
  }
  const picked = pickName(question, first);
  if (picked) return isProblem(picked) ? picked : inside(question, picked, more);
  return inModuleExports(question, names) ?? handedOn(question, first);
}

function inside(question: Question, definition: Definition, rest: Names): Hit | Problem {
  const name = definition.name.replace(/^exports\./, '');
  if (definition.kind === 'declaration') {
    const { node, at, isUnbraced } = definition;
    if (isUnbraced)
      return {
        problem: `${name} is declared in an if without braces, where svc cannot insert calls: put braces around it`,
      };
    if (rest.length > 0) return inConstructor(question, node, name, rest);
    const place: Place = node.id
      ? { form: 'binding', at, name: node.id.name }
      : { form: 'nameless', at, nameAt: nameAt(question.text, node.start) };
    return { place, shown: node };
  }
  const value = core(definition.node);
  if (value.type === 'Identifier') {
    const behind = pickName(question, value.name);
    if (!behind) return around(question, definition, rest);
    return isProblem(behind) ? behind : inside(question, behind, rest);
  }
  if (isClass(value)) return inClass(question, value, name, rest);
  if (isFunction(value) && rest.length > 0) return inConstructor(question, value, name, rest);
  if (value.type === 'ObjectExpression' && rest.length > 0)
    return inObject(question, definition, value, name, rest);
  if (value.type === 'NewExpression' && rest.length > 0) {
    const made = inConstructed(question, value, name, rest);
    if (made) return made;
  }
  const what = neverAFunction(value.type);
  return what ? notAFunction(question, name, what) : around(question, definition, rest);
}

function inObject(
  question: Question,
  value: Pick<NamedValue, 'node' | 'infers'>,
  object: ObjectExpression,
  name: string,
  path: Names,
): Hit | Problem {
  const rest = keysIn(object, path);
  const member = findInObject(object, name, rest);
  if (isProblem(member)) return member;
  if ('missing' in member) return { problem: member.missing };
  const isWhole = member.local !== undefined && member.depth === rest.length;
  const local = isWhole ? pickPath(question, [member.local ?? '']) : undefined;
  return { ...around(question, value, rest), shown: member.shown ?? functionOf(local) };
}

/** What the text shows of `new Service()` and `new Proxy({ … }, handler)`; `undefined`: decided at run time. */
function inConstructed(
  question: Question,
  { callee, arguments: [first] }: NewExpression,
  name: string,
  rest: Names,
): Hit | Problem | undefined {
  const [key = ''] = rest;
  if (callee.type !== 'Identifier') return undefined;
  if (callee.name === 'Proxy' && first !== undefined && first.type !== 'SpreadElement') {
    const target = core(first);
    if (target.type !== 'ObjectExpression') return undefined;
    // A proxy's handler stays in effect: the target object is changed.
    const hit = inObject(question, { node: first, infers: undefined }, target, name, rest);
    return isProblem(hit)
      ? {
          problem: `${name} is a proxy, and its target has no ${rest.join('.')}: functions that its handler makes cannot be captured`,
        }
      : hit;
  }
  const isGetter = getterIn(question, callee.name, key);
  if (isGetter === undefined) return undefined;
  const full = `${name}.${key}`;
  return {
    problem:
      rest.length > 1
        ? behindGetter(full, rest.slice(1).join('.'))
        : `${full} is a getter, not a method: name the method that it calls`,
  };
}

function getterIn(question: Question, className: string, key: string, depth = 0): true | undefined {
  const [definition, more] = question.definitions.byName.get(className) ?? [];
  if (definition?.kind !== 'value' || more !== undefined || depth > 5) return undefined;
  const node = core(definition.node);
  if (!isClass(node)) return undefined;
  const member = node.body.body.findLast(
    (each) => 'key' in each && !each.static && keyOf(each.key, each.computed) === key,
  );
  if (member !== undefined)
    return member.type === 'MethodDefinition' && member.kind === 'get' ? true : undefined;
  return node.superClass?.type === 'Identifier'
    ? getterIn(question, node.superClass.name, key, depth + 1)
    : undefined;
}

function inClass(question: Question, node: Class, name: string, rest: Names): Hit | Problem {
  if (rest.length === 0) return notAFunction(question, name, 'a class: name one of its methods');
  const member = findInClass(node, name, rest);
  if (isProblem(member)) return fromHelper(question, name, rest) ?? member;
  if (member.kind === 'field')
    return fieldValue(question, member.value, member.infers, [name, ...rest].join('.'), member.rest);
  const place: Place = {
    form: 'method',
    at: beforeStatics(node),
    key: member.key,
    isStatic: member.isStatic,
  };
  return { place, shown: member.shown };
}

/** `function Orders() { this.create = … }`: an older class. */
function inConstructor(question: Question, node: AnyFunction, name: string, rest: Names): Hit | Problem {
  const [prototype, key, ...more] = rest;
  const full = [name, ...rest].join('.');
  const body = node.body?.type === 'BlockStatement' ? node.body.body : [];
  const value = prototype === 'prototype' && key !== undefined ? thisField(body, key) : undefined;
  if (value) return fieldValue(question, value, undefined, full, more);
  return fromHelper(question, name, rest) ?? notFound(question, full);
}

/** A member that a compiler helper adds outside the class. */
function fromHelper(question: Question, name: string, rest: Names): Hit | undefined {
  const length = rest[0] === 'prototype' ? 2 : 1;
  const member = question.definitions.helperMembers.get([name, ...rest.slice(0, length)].join('.'));
  return member && around(question, member, rest.slice(length));
}

function fieldValue(
  question: Question,
  node: Expression,
  infers: string | undefined,
  full: string,
  rest: Names,
): Hit | Problem {
  const value = core(node);
  const what = rest.length === 0 ? neverAFunction(value.type) : undefined;
  return what ? notAFunction(question, full, what) : around(question, { node, infers }, rest);
}

/** `module.exports = { create, async cancel() {} }`: its properties are names of the module. */
function inModuleExports(question: Question, names: Names): Hit | Problem | undefined {
  const [definition, more] = question.definitions.byName.get('exports') ?? [];
  const value = definition?.kind === 'value' && !more ? core(definition.node) : undefined;
  if (definition?.kind !== 'value' || value?.type !== 'ObjectExpression') return undefined;
  const member = findInObject(value, 'module.exports', names);
  if ('missing' in member) return undefined;
  if (isProblem(member)) return member;
  const behind = member.local === undefined ? undefined : pickName(question, member.local);
  if (behind) return isProblem(behind) ? behind : inside(question, behind, names.slice(member.depth));
  return { ...around(question, definition, names), shown: member.shown };
}

function around(question: Question, value: Pick<NamedValue, 'node' | 'infers'>, path: Names): Hit {
  const inner = core(value.node);
  const { start, end } = isFunction(inner) ? withNamingCall(value.node) : inner;
  const place: Place = {
    form: 'value',
    start,
    end,
    path,
    name: isNameless(value.node) ? value.infers : undefined,
    open: question.definitions.openEnds.has(end),
  };
  return { place, shown: isFunction(inner) && path.length === 0 ? inner : undefined };
}

function functionOf(definition: Definition | Problem | undefined): AnyFunction | undefined {
  if (!definition || isProblem(definition)) return undefined;
  const value = definition.kind === 'declaration' ? definition.node : core(definition.node);
  return isFunction(value) ? value : undefined;
}

/** The offset after `function` or `function *`, and comments between. */
function nameAt(text: string, start: number): number {
  const gap = String.raw`(?:\s|/\*[\s\S]*?\*/|//.*)*`;
  const keyword = new RegExp(String.raw`(?:async${gap})?function(?:${gap}\*)?`, 'y');
  keyword.lastIndex = start;
  keyword.test(text);
  return keyword.lastIndex;
}

function handedOn(question: Question, head: string): Problem {
  const { aliases, foreign, parts, stars } = question.definitions;
  const local = aliases.get(head) ?? head;
  const whole = parts.get(local);
  if (whole !== undefined) {
    const maker = /^([\w$.]+)\(/.exec(whole.replace(/^await\s+/, ''))?.[1];
    const named = maker === undefined ? 'the function where it is defined' : `${maker}().${local}`;
    return {
      problem: `${head} is taken from ${maker === undefined ? 'a value' : `what ${maker}() returns`}, not defined in this file: name ${named}`,
    };
  }
  if (foreign.has(local)) {
    const source = foreign.get(local);
    const from = source === undefined ? 'another module' : `'${source}'`;
    return { problem: `${head} is not defined in this file but in ${from}: name that module` };
  }
  const missing = notFound(question, question.functionPath);
  if (stars.length === 0) return missing;
  const sources = stars.map((source) => `'${source}'`).join(', ');
  return {
    problem: `${missing.problem}; this file re-exports all of ${sources}: if it is defined there, name that module`,
  };
}

interface OwnFunction {
  /** As a target names it: `OrderService.prototype.create`. */
  readonly path: string;
  readonly node: AnyFunction;
}

/** Every function in the text of a file, in order; empty if it cannot be parsed. */
export function ownFunctions(
  file: string,
  text: string,
): { readonly program: Program | undefined; readonly functions: readonly OwnFunction[] } {
  const parsed = parse(file, text, { goal: 'unknown', typed: /\.[cm]?tsx?$/.test(file) });
  if (isProblem(parsed)) return { program: undefined, functions: [] };
  const { program } = parsed;
  const find = finder(program, text);
  const byPath = new Map<string, AnyFunction>();
  for (const [name, definitions] of scan(program, text).byName)
    for (const { node } of definitions)
      for (const each of functionsIn(name.replace(/^exports\.(?=.)/, ''), core(node as never), 0))
        if (!byPath.has(each.path)) byPath.set(each.path, each.node);
  const functions = [...byPath].map(([path, node]) => ({ path, node }));
  return { program, functions: functions.filter(({ path }) => !isProblem(find(path))) };
}

/** The depth of nested objects to search: longer paths are not practical. */
const deepestObject = 20;

function functionsIn(name: string, node: Node, depth: number): OwnFunction[] {
  if (isFunction(node)) return [{ path: name, node }];
  if (isClass(node)) return node.body.body.flatMap((member) => ofMember(name, member));
  if (node.type !== 'ObjectExpression' || depth === deepestObject) return [];
  return node.properties.flatMap((each) => {
    if (each.type !== 'Property' || each.kind !== 'init') return [];
    const key = keyOf(each.key, each.computed);
    // `module.exports = { create }`: its properties are names of the module.
    const path = name === 'exports' ? key : `${name}.${key}`;
    return key === undefined || path === undefined
      ? []
      : functionsIn(path, core(each.value as never), depth + 1);
  });
}

function ofMember(name: string, member: Class['body']['body'][number]): OwnFunction[] {
  if (member.type !== 'MethodDefinition' && member.type !== 'PropertyDefinition') return [];
  const key = keyOf(member.key, member.computed);
  if (key === undefined || key.startsWith('#')) return [];
  if (member.type === 'MethodDefinition' && member.kind !== 'method') return [];
  const node = member.value && core(member.value);
  return node && isFunction(node)
    ? [{ path: `${name}.${member.static ? '' : 'prototype.'}${key}`, node }]
    : [];
}

interface Question {
  readonly definitions: Definitions;
  readonly text: string;
  readonly functionPath: string;
  /** Names looked up so far, so that cycles of aliases end. */
  readonly seen: Set<string>;
  readonly asked?: Asked | undefined;
}

/** The parts of a text that the answers depend on. */
interface Asked {
  readonly names: Set<string>;
  readonly factories: { readonly start: number; readonly end: number }[];
}

/** A place, and the function itself if the text shows it. */
interface Hit {
  readonly place: Place;
  readonly shown: AnyFunction | undefined;
}

function knownPaths(definitions: Definitions): string[] {
  const paths = [...definitions.aliases.keys()];
  for (const [key, list] of definitions.byName) {
    const name = key.replace(/^exports\./, '');
    if (name !== 'exports') paths.push(name);
    for (const { node } of list) {
      const value = core(node as Expression);
      if (isClass(value)) paths.push(...classPaths(value, name));
      if (value.type !== 'ObjectExpression') continue;
      paths.push(...objectPaths(value, name).map((path) => path.replace(/^exports\./, '')));
    }
  }
  return paths;
}

function notFound(question: Question, name: string): Problem {
  const { definitions, text } = question;
  const minified = minifiedHint(text, definitions.byName.keys());
  const near = didYouMean(name, knownPaths(definitions));
  return { problem: `no ${name} in this file${near}${minified === undefined ? '' : `: ${minified}`}` };
}

function notAFunction(question: Question, name: string, what: string): Problem {
  const inside = knownPaths(question.definitions).filter((path) => path.startsWith(`${name}.`));
  const named = inside.length > 0 ? `; it has ${inside.slice(0, 5).join(', ')}` : '';
  return { problem: `${name} is not a function but ${what}${named}` };
}

/** Hand-written lines average 30 to 40 characters, minified ones thousands. */
const shortestLine = 60;
/** Minified names have one or two letters, in large bundles three. */
const longestMadeUp = 3;
const share = 0.75;

/** The remedy for a file with minified names; `undefined` for others. `names`: those that the file defines. */
function minifiedHint(text: string, names: Iterable<string>): string | undefined {
  const own = [...names].filter((name) => !name.includes('.') && name !== 'exports');
  const lines = Math.max(1, text.trimEnd().split('\n').length);
  const madeUp = own.filter((name) => name.length <= longestMadeUp).length;
  if (own.length === 0 || madeUp < own.length * share || text.length / lines < shortestLine) return undefined;
  return 'it is minified, so its functions have lost their names. Name its source and ship the source map, or minify without renaming (esbuild: --minify-whitespace --minify-syntax). Or declare the event in code, with publishEvent(options, fn) or @PublishEvent';
}

type ClassMember =
  | { readonly kind: 'method'; readonly key: string; readonly isStatic: boolean; readonly shown: AnyFunction }
  | {
      readonly kind: 'field';
      readonly value: Expression;
      /** The name that JavaScript gives to a nameless function here. */
      readonly infers: string | undefined;
      readonly rest: readonly string[];
    };

function findInClass(node: Class, name: string, path: readonly string[]): ClassMember | Problem {
  const isStatic = path[0] !== 'prototype';
  const [key, ...rest] = isStatic ? path : path.slice(1);
  if (key === undefined) return { problem: `${name}.prototype is not a function: name one of its methods` };
  const full = `${name}.${isStatic ? '' : 'prototype.'}${key}`;
  for (const member of node.body.body) {
    if (!('key' in member) || member.static !== isStatic || keyOf(member.key, member.computed) !== key)
      continue;
    if (member.type === 'MethodDefinition') {
      if (member.kind === 'get' || member.kind === 'set')
        return { problem: `${full} is a ${member.kind}ter, not a method` };
      if (member.kind === 'constructor') return { problem: `${full} is a constructor: name a method` };
      // Overloads and abstract methods have no body.
      if (!isFunction(member.value) || !member.value.body) continue;
      if (rest.length > 0) return { problem: `${full} is a method and has no ${rest.join('.')}` };
      return { kind: 'method', key, isStatic, shown: member.value };
    }
    if ((member.type === 'PropertyDefinition' || member.type === 'AccessorProperty') && member.value)
      return { kind: 'field', value: member.value, infers: key, rest };
  }
  const assigned = assignedField(node, key, isStatic);
  if (assigned) return { kind: 'field', value: assigned, infers: undefined, rest };
  return { problem: missingMember(node, name, key, full) };
}

/** Paths of a class that a target could name: `A.prototype.create`, `A.of`. */
function classPaths(node: Class, name: string): string[] {
  return node.body.body.flatMap((member) => {
    const key = 'key' in member ? keyOf(member.key, member.computed) : undefined;
    if (key === undefined || key === 'constructor' || key.startsWith('#')) return [];
    return [`${name}.${isStaticMember(member) ? '' : 'prototype.'}${key}`];
  });
}

function isStaticMember(member: ClassElement): boolean {
  return 'static' in member && member.static;
}

/** `this.create = …` in the constructor or a static block: compiled class fields. */
function assignedField(node: Class, key: string, isStatic: boolean): Expression | undefined {
  for (const member of node.body.body) {
    if (isStatic && member.type === 'StaticBlock') {
      const found = thisField(member.body, key);
      if (found) return found;
    }
    if (!isStatic && member.type === 'MethodDefinition' && member.kind === 'constructor' && member.value.body)
      return thisField(member.value.body.body, key);
  }
  return undefined;
}

function missingMember(node: Class, name: string, key: string, full: string): string {
  const isPrivate = node.body.body.some(
    (member) => 'key' in member && keyOf(member.key, member.computed) === `#${key}`,
  );
  if (isPrivate) return privateMethod(`#${key}`);
  const parent = node.superClass?.type === 'Identifier' ? node.superClass.name : undefined;
  const inherited = parent
    ? `; if ${name} inherits it, name ${full.replace(name, parent)}, where it is defined`
    : '';
  return `no ${full} in this file${didYouMean(full, classPaths(node, name))}${inherited}`;
}

interface ObjectMember {
  readonly shown: AnyFunction | undefined;
  /** The property only refers to this local name: `{ create }`, `{ create: createOrder }`. */
  readonly local: string | undefined;
  /** How many steps of the path lead to `local`. */
  readonly depth: number;
}

const unknown: ObjectMember = { shown: undefined, local: undefined, depth: 0 };

/** Follows a path through an object literal. Spreads and computed names are left to run time. */
function findInObject(
  object: ObjectExpression,
  name: string,
  path: readonly string[],
  depth = 0,
): ObjectMember | Problem | { readonly missing: string } {
  const key = path[depth];
  if (key === undefined) return unknown;
  const full = `${name}.${path.slice(0, depth + 1).join('.')}`;
  // The last one counts, as in JavaScript.
  const property = object.properties.findLast((each) => named(each) === key) as ObjectProperty | undefined;
  if (!property) {
    const isOpen = object.properties.some((each) => named(each) === undefined);
    return isOpen
      ? unknown
      : { missing: `no ${full} in this file${didYouMean(full, objectPaths(object, name))}` };
  }
  if (property.kind !== 'init') {
    const behind = path.slice(depth + 1).join('.');
    return {
      problem: behind === '' ? `${full} is a ${property.kind}ter, not a method` : behindGetter(full, behind),
    };
  }
  const value = core(property.value);
  const isLast = depth === path.length - 1;
  if (isFunction(value)) return isLast ? { shown: value, local: undefined, depth: depth + 1 } : unknown;
  if (value.type === 'Identifier') return { shown: undefined, local: value.name, depth: depth + 1 };
  if (value.type === 'ObjectExpression' && !isLast) return findInObject(value, name, path, depth + 1);
  const what = neverAFunction(value.type);
  return what ? { problem: `${full} is not a function but ${what}` } : unknown;
}

/** The path in the object's own keys: `orders.create` may be one key. */
function keysIn(object: ObjectExpression, path: readonly string[]): string[] {
  const [first, ...rest] = path;
  if (first === undefined) return [];
  const keys = object.properties.map(named);
  for (let length = keys.includes(first) ? 1 : path.length; length > 0; length--) {
    const key = path.slice(0, length).join('.');
    if (!keys.includes(key)) continue;
    const value = valueUnder(object, key);
    const others = path.slice(length);
    return [key, ...(value?.type === 'ObjectExpression' ? keysIn(value, others) : others)];
  }
  return [first, ...rest];
}

function valueUnder(object: ObjectExpression, key: string): ReturnType<typeof core> | undefined {
  const property = object.properties.findLast((each) => named(each) === key);
  return property?.type === 'Property' ? core(property.value) : undefined;
}

function objectPaths(object: ObjectExpression, name: string): string[] {
  return object.properties.flatMap((property) => {
    const key = named(property);
    return key === undefined ? [] : [`${name}.${key}`];
  });
}

function neverAFunction(type: string): string | undefined {
  return things.get(type);
}

const things = new Map([
  ['Literal', 'a plain value'],
  ['TemplateLiteral', 'a string'],
  ['ArrayExpression', 'an array'],
  ['ObjectExpression', 'an object'],
  ['UnaryExpression', 'a plain value'],
  ['BinaryExpression', 'a plain value'],
  ['UpdateExpression', 'a number'],
]);

/** `undefined` if the text does not show it: spreads, computed names, and `__proto__: base`, which adds more names. */
function named(property: ObjectExpression['properties'][number]): string | undefined {
  const key = property.type === 'Property' ? keyOf(property.key, property.computed) : undefined;
  return key === '__proto__' ? undefined : key;
}

/** Searches the text of a factory's result: for parameter names, and to report a missing name before the first call. */
function findReturned(
  factory: AnyFunction,
  path: readonly string[],
  name: string,
  definitions: Definitions,
): { shown: AnyFunction | undefined } | Problem {
  const problems: Problem[] = [];
  const values = returnedValues(factory);
  for (const value of values) {
    const found = lookInto(core(value), path, name, factory, definitions);
    if (isProblem(found)) problems.push(found);
    else if (found.shown) return found;
  }
  const [first] = problems;
  return first && problems.length === values.length ? first : { shown: undefined };
}

type Looked = { shown: AnyFunction | undefined } | Problem;

function lookInto(
  value: Node,
  path: readonly string[],
  name: string,
  factory: AnyFunction,
  definitions: Definitions,
): Looked {
  const nothing: Looked = { shown: undefined };
  if (isFunction(value)) return path.length === 0 ? { shown: value } : nothing;
  if (value.type === 'ObjectExpression') {
    const found = findInObject(value, `${name}()`, path);
    if ('missing' in found) return { problem: found.missing };
    if (isProblem(found) || found.local === undefined || found.depth < path.length) return found;
    return { shown: functionNamed(found.local, factory, definitions) };
  }
  const [method] = path;
  if (value.type === 'NewExpression' && value.callee.type === 'Identifier' && path.length === 1 && method) {
    const [definition] = definitions.byName.get(value.callee.name) ?? [];
    const node = definition?.kind === 'value' ? core(definition.node) : undefined;
    const member =
      node && isClass(node) ? findInClass(node, value.callee.name, ['prototype', method]) : undefined;
    return member && !isProblem(member) && member.kind === 'method' ? { shown: member.shown } : nothing;
  }
  if (value.type === 'Identifier') {
    if (path.length === 0) return { shown: functionNamed(value.name, factory, definitions) };
    const assigned = functionNamed([value.name, ...path].join('.'), factory, definitions);
    if (assigned) return { shown: assigned };
    const local = within(factory, value.name, definitions);
    const object = local?.kind === 'value' ? core(local.node) : undefined;
    if (!object || object.type === 'Identifier') return nothing;
    const found = lookInto(object, path, name, factory, definitions);
    // A named object can get properties later, so a missing name proves nothing.
    return isProblem(found) ? nothing : found;
  }
  return nothing;
}

function functionNamed(
  name: string,
  factory: AnyFunction,
  definitions: Definitions,
): AnyFunction | undefined {
  const definition = within(factory, name, definitions);
  if (definition?.kind === 'declaration') return definition.node;
  const value = definition ? core(definition.node) : undefined;
  return value && isFunction(value) ? value : undefined;
}

/** The definition inside the factory, else the only one in the file. */
function within(factory: AnyFunction, name: string, definitions: Definitions) {
  const list = definitions.byName.get(name) ?? [];
  const inside = list.filter((each) => each.node.start > factory.start && each.node.end <= factory.end);
  const [only, more] = inside.length > 0 ? inside : list;
  return more ? undefined : only;
}

function returnedValues(factory: AnyFunction): Expression[] {
  if (!factory.body) return [];
  if (factory.body.type !== 'BlockStatement') return [factory.body];
  const isOther = (node: Node) => isFunction(node) || isClass(node) || node.type === 'ReturnStatement';
  const returned: Expression[] = [];
  for (const node of walk(factory.body.body, isOther))
    if (node.type === 'ReturnStatement' && node.argument) returned.push(node.argument);
  return returned;
}

/** The definition of a module's name: its own, then its export of that name, then a nested one. */
function pickName(question: Question, name: string): Definition | Problem | undefined {
  if (question.seen.has(name)) return undefined;
  question.seen.add(name);
  const { aliases, byName } = question.definitions;
  const own = byName.get(name) ?? [];
  if (own.some((definition) => definition.tier === 0)) return pickFrom(question, name, own);
  const alias = aliases.get(name);
  const behind = alias === undefined ? undefined : pickName(question, alias);
  if (behind && !(isProblem(behind) && own.length > 0)) return behind;
  const exported = pickPath(question, [`exports.${name}`, ...(name === 'default' ? ['exports'] : [])]);
  // `exports.create = create`, with `create` in a function around the module.
  const isItself = exported && !isProblem(exported) && isName(exported, name);
  if (exported && !(isItself && own.length > 0)) return exported;
  return own.length > 0 ? pickFrom(question, name, own) : undefined;
}

function isName({ kind, node }: Definition, name: string): boolean {
  const value = kind === 'value' ? core(node) : undefined;
  return value?.type === 'Identifier' && value.name === name;
}

function pickPath(question: Question, paths: readonly string[]): Definition | Problem | undefined {
  for (const path of paths) {
    const list = question.definitions.byName.get(path);
    if (list) return pickFrom(question, path, list);
  }
  return undefined;
}

/** The definition nearest to the module scope; equally near ones are ambiguous. */
function pickFrom(question: Question, name: string, all: readonly Definition[]): Definition | Problem {
  const defined = all.filter((each) => each.kind === 'declaration' || each.isMerge !== true);
  const list = defined.length > 0 ? defined : all;
  const nearest = Math.min(...list.map((definition) => definition.tier));
  const values = new Map(
    list.filter((each) => each.tier === nearest).map((each) => [core(each.node as Expression), each]),
  );
  const candidates = [...values.values()];
  const [first, second] = candidates;
  if (first && !second) return insideOf(first, list);
  const lines = [...new Set(candidates.map((each) => lineAt(question.text, each.node.start)))];
  const where = `line${lines.length > 1 ? 's' : ''} ${lines.join(', ')}`;
  return {
    problem: `${name} is ambiguous: it is defined ${candidates.length} times (${where}); give the target a unique name`,
  };
}

/** `var A = (() => { class A {} return A; })()` of compilers: the inner class counts. */
function insideOf(outer: Definition, list: readonly Definition[]): Definition {
  if (outer.kind !== 'value' || core(outer.node).type !== 'CallExpression') return outer;
  const [only, more] = list.filter(
    ({ kind, node }) =>
      node.start > outer.node.start &&
      node.end < outer.node.end &&
      (kind === 'declaration' || isClass(core(node as Expression))),
  );
  return only && !more ? only : outer;
}

/**
 * The value of `this.key`: `this.key = …`, `_define_property(this, 'key', …)` (swc, Babel), `__publicField(this, 'key',
 * …)` (esbuild), `Object.defineProperty(this, 'key', { value: … })` (tsc).
 */
function thisField(body: readonly Node[], key: string): Expression | undefined {
  for (const node of walk(body, ownsThis)) {
    const found = given(node, key);
    if (found) return found;
  }
  return undefined;
}

function given(node: Node, key: string): Expression | undefined {
  const value = givenValue(node, key);
  // `_define_property(this, 'key', void 0)`: declared here, assigned later.
  return value && isNothing(value) ? undefined : value;
}

function givenValue(node: Node, key: string): Expression | undefined {
  if (node.type === 'AssignmentExpression')
    return memberPath(node.left) === `this.${key}` ? node.right : undefined;
  if (node.type !== 'CallExpression' || node.arguments.length !== 3) return undefined;
  const value = argument(node.arguments, 2);
  const isField =
    argument(node.arguments, 0)?.type === 'ThisExpression' && stringOf(argument(node.arguments, 1)) === key;
  if (!value || !isField) return undefined;
  return memberPath(node.callee) === 'Object.defineProperty' ? described(value) : value;
}

function described(descriptor: Expression): Expression | undefined {
  const object = bare(descriptor);
  return object.type === 'ObjectExpression' ? propertyOf(object, 'value') : undefined;
}

/** Inside these, `this` is another object. */
function ownsThis(node: Node): boolean {
  return node.type === 'FunctionExpression' || node.type === 'FunctionDeclaration' || isClass(node);
}

function defaultedParameters(node: AnyFunction): number[] {
  return parametersOf(node).flatMap((parameter, index) =>
    parameter.type === 'AssignmentPattern' ? [index] : [],
  );
}

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
interface NamedValue {
  readonly kind: 'value';
  readonly name: string;
  readonly tier: Tier;
  readonly node: Expression | Class;
  /** The name that JavaScript infers for a nameless function here, if any. */
  readonly infers: string | undefined;
  /** `Order || (Order = {})` of a compiled namespace: not a definition if a class or function has this name. */
  readonly isMerge?: true;
}

type Definition = DeclaredFunction | NamedValue;

/** The names of one file. CommonJS exports are under `exports.name`, `module.exports` itself under `exports`. */
interface Definitions {
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
