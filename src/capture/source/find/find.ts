// find/: where in a text the function of a target is defined.

import type { Class, Expression, NewExpression, ObjectExpression, Program } from 'oxc-parser';
import { inEachForm } from '../../../ground/nearest-names.ts';
import type { Range } from '../outline.ts';
import { parse, type TextKind } from '../parse-text.ts';
import { behindGetter, type Found, isProblem, type Place, type Problem } from '../wrapper-place.ts';
import type { Definition, NamedValue } from './definitions.ts';
import { findInClass } from './find-in-class.ts';
import { findInObject, keysIn, neverAFunction } from './find-in-object.ts';
import { findReturned } from './find-returned.ts';
import { parseFunctionPath } from './function-path.ts';
import { pickName, pickPath } from './pick-definition.ts';
import { scan } from './scan.ts';
import {
  type AnyFunction,
  beforeStatics,
  core,
  defaultedParameters,
  isClass,
  isFunction,
  isNameless,
  keyOf,
  parameterNames,
  withNamingCall,
} from './syntax.ts';
import { type Asked, type Hit, notAFunction, notFound, type Question } from './target-question.ts';
import { thisField } from './this-field.ts';

type Names = readonly string[];

/**
 * Reads a parsed file once; what it gives back finds one function path after the other in it.
 *
 * @param asked gets what was looked at
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

/** What a definition is not found by: many others say it too. */
const common = new Set(['exports', 'module', 'prototype', 'this', '']);

/** The names in `createRepository().insert`, `exports.create`, `OrderService.prototype.create`. */
export const wordsOf = (path: string): string[] => path.split(/[.()]+/).filter((word) => !common.has(word));

/** Follows one name to the next one at most: an alias, a class that a factory makes, an object that a method stands in. */
const mostRounds = 8;

/** Where the parameters stand. */
function parametersIn(found: Found | Problem): Range[] {
  const own = isProblem(found) ? undefined : (found.parametersOf as AnyFunction | undefined);
  return own ? [{ start: own.start, end: own.body?.start ?? own.end }] : [];
}

const isCut = ({ start, end }: Range, parsed: string, text: string): boolean =>
  parsed !== text && parsed.slice(start, end) !== text.slice(start, end);

/** What a text says about function paths. */
export interface FoundPaths {
  /** Only what leads to them where the text is a longer one. */
  readonly program: Program;
  /** In the order of the paths. */
  readonly found: readonly (Found | Problem)[];
  /** Where the last statement ends, but for functions that were not read; `undefined` where there is none. */
  readonly end: number | undefined;
}

/** Parses a text and finds all of these in it. */
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
    // What is not there may be there under another name, or in another file.
    const isToName: boolean = !keepsNames && found.some(isProblem);
    const isAll = names.size === known && cut.length === 0;
    if (parsed.isWhole || round === mostRounds || (isAll && !isToName))
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

/** The longest beginning of the path that the file gives a value, then the rest inside of that. */
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
        problem: `${name} is declared in an if without braces, where nothing can be inserted: put braces around it`,
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

/** What the text shows of `new Service()` and `new Proxy({ … }, handler)`; `undefined`: it is left to run time. */
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
    // What the handler makes of a member is seen from outside, its target from inside: the target is changed.
    const hit = inObject(question, { node: first, infers: undefined }, target, name, rest);
    return isProblem(hit)
      ? {
          problem: `${name} is a proxy, and its target does not show ${rest.join('.')}: what its handler makes cannot be captured`,
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

/** Whether instances of a class of this file have a getter of this name. */
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

/** A member that a compiler's helper adds, outside of the class. */
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

/** `module.exports = { create, async cancel() {} }`: the object's properties are the module's names. */
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

/** Behind `function` or `function *`, comments between them included. */
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
      problem: `${head} is taken out of ${maker === undefined ? 'a value' : `what ${maker}() returns`}, and not defined in this file by itself: name ${named}`,
    };
  }
  if (foreign.has(local)) {
    const source = foreign.get(local);
    const from = source === undefined ? 'another module' : `'${source}'`;
    return { problem: `${head} is not defined in this file, it comes from ${from}: name that as the module` };
  }
  const missing = notFound(question, question.functionPath);
  if (stars.length === 0) return missing;
  const sources = stars.map((source) => `'${source}'`).join(', ');
  return {
    problem: `${missing.problem}; this file hands on all of ${sources}: if it is defined there, name that as the module`,
  };
}
