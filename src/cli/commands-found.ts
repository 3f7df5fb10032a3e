import { readFileSync } from 'node:fs';
import { basename, dirname, relative, resolve } from 'node:path';
import type { Node, Program } from 'oxc-parser';
import { followImports } from '../capture/inspect.ts';
import { ownFunctions } from '../capture/source/find.ts';
import { lineAt } from '../capture/source/parse-text.ts';
import { sourceOf, sourcesIn } from '../capture/source/source-files.ts';
import {
  type AnyFunction,
  children,
  declarationOf,
  isFunction,
  keyOf,
  memberPath,
  parameterNames,
  parametersOf,
} from '../capture/source/syntax.ts';
import { locate } from '../capture/source/target-files.ts';
import { isProblem } from '../capture/source/wrapper-place.ts';
import { isFile } from '../ground/files.ts';
import {
  annotationOf,
  idOf,
  importedFrom,
  isAboutSame,
  type OwnSource,
  type Source,
  Sources,
} from './calls.ts';
import { WrongUse } from './terminal.ts';

/** A function to become a target. `line`: if its file shows it. */
export type NamedTarget = Omit<Candidate, 'distance' | 'line' | 'leaveOut'> & { readonly line?: number };

export interface Candidate extends Offer {
  /** As targets name it: `./src/orders.ts`. */
  readonly module: string;
  readonly path: string;
  readonly line: number;
  readonly eventType: string;
  readonly distance: number;
  /** Why it is not proposed: another function makes the event of the same call. */
  readonly leaveOut?: string;
}

const tests =
  /(?:^|\/)(?:tests?|__tests__|__mocks__|specs?|e2e|fixtures|examples|scripts|migrations|seeds?)\/|\.(?:test|spec|e2e|mock|stories|config)\./;

/** The candidates, domain functions first, and the number of functions read. */
export interface Search {
  readonly candidates: readonly Candidate[];
  readonly functionCount: number;
}

/**
 * Finds functions that look like commands, by their source text. Those that are not proposed come last.
 *
 * @param entries of the start: if known, only files that it loads are read
 */
export function findCommands(folder: string, entries: readonly string[] | undefined): Search {
  const loaded = entries === undefined ? [] : [...followImports(entries, folder).files];
  const all = loaded.length > 0 ? loaded.map(writtenAs) : sourcesIn(folder);
  const shownAs = (file: string) => relative(folder, file).replaceAll('\\', '/');
  const files = [...new Set(all)].sort().filter((file) => {
    const shown = shownAs(file);
    return !shown.startsWith('../') && !tests.test(shown) && !shown.includes('node_modules/');
  });
  const sources = new Sources(files);
  const found: (Candidate & Called)[] = [];
  for (const file of files) {
    const source = sources.read(file);
    if (source === undefined) continue;
    sources.followCalls(source);
    const shown = shownAs(file);
    for (const { path, node } of source.functions) {
      const eventType = eventTypeOfCommand(path, shown);
      if (eventType === undefined) continue;
      const offer = offerOf(node, source.program, nounOf(eventType), source);
      found.push({
        ...{ module: `./${shown}`, path, eventType, line: lineAt(source.text, node.start) },
        ...{ distance: distanceOf(path, shown), ...offer },
        ...{ id: idOf({ file, path }), answers: isHandler(node) || offer.payload === nothingToSay },
      });
    }
  }
  const candidates = found.map(({ id, answers, ...candidate }): Candidate => {
    const leaveOut = reasonToLeave({ id, answers, ...candidate }, found, sources);
    return leaveOut === undefined ? candidate : { ...candidate, leaveOut };
  });
  const lastOf = ({ leaveOut, distance }: Candidate) => (leaveOut === undefined ? 0 : 10) + distance;
  // The sort is stable: otherwise the order of the files stays.
  return {
    candidates: candidates.sort((a, b) => lastOf(a) - lastOf(b)),
    functionCount: sources.functionCount,
  };
}

const nounOf = (eventType: string): string => eventType.replace(/_[^_]+$/, '');

interface Called {
  readonly id: string;
  /** It answers a request itself, or has no data for an event: a function that it calls knows more. */
  readonly answers: boolean;
}

/** A request handler of Express, Fastify, Koa or Hono. Its return does not tell 400 from 200. */
function isHandler(node: AnyFunction): boolean {
  const names = parameterNames(node).map((name) => name.replace(/^_/, ''));
  const [first = '', second] = names;
  if (names.some((name, at) => at > 0 && /^(?:res|resp|response|reply)$/.test(name))) return true;
  return /^(?:ctx|context|c)$/.test(first) && (second === undefined || second === 'next');
}

/** One call, one event: of functions that call each other, the outermost with data for an event stays. */
function reasonToLeave(
  one: Candidate & Called,
  all: readonly (Candidate & Called)[],
  sources: Sources,
): string | undefined {
  const name = (each: Candidate) => each.path.replace('.prototype.', '.').replace(/^default\./, '');
  const below = sources.reachedFrom(one.id);
  // The nearest comes first.
  const [inner] = [...below.keys()].flatMap(
    (id) => all.find((each) => each.id === id && !each.answers) ?? [],
  );
  if (one.answers && inner !== undefined)
    return `it only hands on to ${name(inner)}, which knows the outcome`;
  const isOuter = (each: Candidate & Called): boolean => {
    if (each.id === one.id || each.answers) return false;
    const isReturned = sources.reachedFrom(each.id).get(one.id);
    if (isReturned === undefined) return false;
    // If two call each other, the first one stays.
    if (below.has(each.id) && all.indexOf(each) > all.findIndex(({ id }) => id === one.id)) return false;
    return isReturned || isAboutSame(each.eventType, one.eventType) || isCovered();
  };
  /** All its callers make an event. */
  const isCovered = (): boolean => {
    const outer = all.filter(({ id, answers }) => id !== one.id && !answers && !below.has(id));
    const reached = new Set(outer.flatMap(({ id }) => [id, ...sources.reachedFrom(id).keys()]));
    return [...sources.callersOf(one.id)].every((caller) => reached.has(caller));
  };
  const outers = all.filter(isOuter);
  const isInner = (each: Candidate & Called) =>
    outers.some(({ id }) => id !== each.id && sources.reachedFrom(id).has(each.id));
  const outer = outers.find((each) => !isInner(each)) ?? outers[0];
  if (outer === undefined) return undefined;
  const reached = sources.reachedFrom(outer.id);
  const others = [...sources.callersOf(one.id)].filter(
    (id) => id !== outer.id && !reached.has(id) && !all.some((each) => each.id === id && !each.answers),
  );
  const [file] = others.map((id) => basename(id.slice(0, id.indexOf('#'))));
  const also = file === undefined ? '' : `; ${file} calls it too, which then makes no event`;
  return `${name(outer)} calls it: one call, one event${also}`;
}

/**
 * The source of a built file, according to its source map, since built code has no types. The file itself if there is no map, or
 * if the map has several sources.
 */
function writtenAs(file: string): string {
  try {
    const map = JSON.parse(sourceOf(`${file}.map`) ?? '') as { sourceRoot?: unknown; sources?: unknown };
    const [source, ...more] = Array.isArray(map.sources) ? (map.sources as unknown[]) : [];
    if (typeof source !== 'string' || more.length > 0) return file;
    const root = typeof map.sourceRoot === 'string' ? map.sourceRoot : '';
    const path = resolve(dirname(file), root, source);
    return isFile(path) ? path : file;
  } catch {
    return file;
  }
}

/** One proposal per event type, and the other candidates with reasons. */
export function oneOfEach(candidates: readonly Candidate[]): {
  readonly targets: readonly Candidate[];
  readonly others: readonly Candidate[];
} {
  const byType = new Map<string, Candidate>();
  const others: Candidate[] = [];
  for (const each of candidates) {
    const first = byType.get(each.eventType);
    if (each.leaveOut !== undefined) others.push(each);
    else if (first === undefined) byType.set(each.eventType, each);
    else others.push({ ...each, leaveOut: `${first.module.slice(2)} makes the same event` });
  }
  return { targets: [...byType.values()], others };
}

/** A value within a parameter or the result, with its name in an event. */
interface Field {
  readonly name: string;
  readonly path: readonly string[];
}

const isIdName = (name: string): boolean => /^id$|Id$|^_?uuid$/.test(name);

/** The fields of a parameter, by its pattern, its type or the function's accesses. `undefined`: the parameter is a plain value. */
function fieldsOfParameter(
  parameter: Node,
  name: string,
  node: AnyFunction,
  source: Source,
): readonly Field[] | undefined {
  const target = parameter.type === 'AssignmentPattern' ? parameter.left : parameter;
  const annotation = annotationOf(target);
  const type = annotation && typeOf(annotation, source);
  if (target.type === 'ObjectPattern') {
    const keys = keysOfPattern(target);
    return (typeof type === 'object' ? keys.filter((key) => type.includes(key)) : keys).map(fieldNamed);
  }
  if (type === 'value') return undefined;
  if (type !== undefined) return type.map(fieldNamed);
  const read = node.body ? fieldsRead(node.body, name) : [];
  if (read.length > 0) return read;
  // A parameter without a type may be an object that contains anything.
  return annotation || !isIdName(name) ? [] : undefined;
}

/** How deep calls are followed to find returned values. */
const deepestCall = 4;

/** The fields of the result, by the return type or the returned values, following calls whose results are returned. */
function fieldsOfResult(
  node: AnyFunction,
  source: Source | OwnSource,
  depth = 0,
): { readonly fields: readonly Field[]; readonly isNothing: boolean } {
  const written = node.returnType ? typeOf(node.returnType.typeAnnotation, source) : undefined;
  if (written === 'value') return { fields: [], isNothing: false };
  if (written !== undefined) return { fields: written.map(fieldNamed), isNothing: written.length === 0 };
  const returned = node.body ? returnedBy(node.body) : [];
  const names = returned.flatMap((value) => fieldsOfValue(value, node, source, depth));
  return {
    fields: [...new Map(names.map((each) => [each.name, each])).values()],
    isNothing: returned.length === 0,
  };
}

function fieldsOfValue(
  value: Node,
  node: AnyFunction,
  source: Source | OwnSource,
  depth: number,
): readonly Field[] {
  if (value.type === 'ObjectExpression') return keysOfObject(value).map(fieldNamed);
  if (value.type === 'CallExpression') return fieldsOfCall(value, source, depth);
  if (value.type === 'ConditionalExpression')
    return [value.consequent, value.alternate].flatMap((each) =>
      fieldsOfValue(plain(each), node, source, depth),
    );
  if (value.type !== 'Identifier' || !node.body) return [];
  const made = initOf(node.body, value.name);
  const keys = made ? fieldsOfMade(made, source, depth) : [];
  return [...keys, ...fieldsRead(node.body, value.name)];
}

function fieldsOfMade(made: Node, source: Source | OwnSource, depth: number): readonly Field[] {
  if (made.type === 'ObjectExpression') return keysOfObject(made).map(fieldNamed);
  return made.type === 'CallExpression' ? fieldsOfCall(made, source, depth) : [];
}

/** These functions return the result of their callback. */
const transactional = /transaction|atomic|unitOfWork|retry|with(?:Client|Connection)/i;

function fieldsOfCall(
  { callee, arguments: given }: Extract<Node, { type: 'CallExpression' }>,
  source: Source | OwnSource,
  depth: number,
): readonly Field[] {
  if (!('sources' in source) || depth >= deepestCall) return [];
  if (transactional.test(memberPath(callee)?.split('.').at(-1) ?? '')) {
    const work = given.find((each) => isFunction(each));
    if (work !== undefined) return fieldsOfResult(work, source, depth + 1).fields;
  }
  const [place, more] = source.sources.meantBy(callee, source);
  const other = place && more === undefined ? source.sources.read(place.file) : undefined;
  const found = other && [...other.functions, ...other.hidden].find(({ path }) => path === place?.path);
  return other === undefined || found === undefined
    ? []
    : fieldsOfResult(found.node, other, depth + 1).fields;
}

/** `order.customer.id` and `const { id } = order.customer` read `customerId`. Called properties are methods, not fields. */
function fieldsRead(body: Node, root: string): Field[] {
  const found = new Map<string, Field>();
  const add = (path: string): void => {
    const [first, ...rest] = path.split('.');
    if (first !== root || rest.length === 0 || rest.at(-1) === 'length' || rest.length > 3) return;
    const names = /^(?:body|params|query)$/.test(rest[0] ?? '') ? rest.slice(1) : rest;
    const name = names
      .map((each, at) => (at === 0 ? each : each.charAt(0).toUpperCase() + each.slice(1)))
      .join('');
    if (name !== '' && /^[\w$]+$/.test(name) && !found.has(name)) found.set(name, { name, path: rest });
  };
  const visit = (node: Node): void => {
    if (node.type === 'MemberExpression') {
      const path = memberPath(node);
      if (path !== undefined) {
        add(path);
        return;
      }
    }
    if (node.type === 'CallExpression' && memberPath(node.callee) !== undefined) {
      for (const each of node.arguments) visit(each);
      return;
    }
    // An assigned property is not read.
    if (node.type === 'AssignmentExpression') {
      visit(node.right);
      return;
    }
    if (node.type === 'VariableDeclarator' && node.id.type === 'ObjectPattern' && node.init) {
      const path = memberPath(node.init);
      if (path !== undefined) {
        for (const key of keysOfPattern(node.id)) add(`${path}.${key}`);
        return;
      }
    }
    for (const child of children(node)) visit(child);
  };
  visit(body);
  return [...found.values()];
}

/** The returned expressions, without those of nested functions. */
function returnedBy(body: Node): Node[] {
  if (body.type !== 'BlockStatement') return [plain(body)];
  const found: Node[] = [];
  const visit = (node: Node): void => {
    if (isFunction(node)) return;
    if (node.type === 'ReturnStatement' && node.argument) found.push(plain(node.argument));
    for (const child of children(node)) visit(child);
  };
  for (const child of body.body) visit(child);
  return found;
}

function initOf(body: Node, name: string): Node | undefined {
  for (const node of children(body)) {
    if (node.type === 'VariableDeclarator' && node.id.type === 'Identifier' && node.id.name === name)
      return node.init ? plain(node.init) : undefined;
    const inside = isFunction(node) ? undefined : initOf(node, name);
    if (inside) return inside;
  }
  return undefined;
}

function plain(node: Node): Node {
  if (node.type === 'AwaitExpression') return plain(node.argument);
  if (
    node.type === 'ParenthesizedExpression' ||
    node.type === 'TSAsExpression' ||
    node.type === 'TSSatisfiesExpression'
  )
    return plain(node.expression);
  return node;
}

function keysOfPattern(pattern: Extract<Node, { type: 'ObjectPattern' }>): FieldNames {
  return pattern.properties.flatMap((each) =>
    each.type === 'Property' ? (keyOf(each.key, each.computed) ?? []) : [],
  );
}

/** Keys whose value is not an object, array or function literal. */
function keysOfObject(object: Extract<Node, { type: 'ObjectExpression' }>): FieldNames {
  return object.properties.flatMap((each) => {
    if (
      each.type !== 'Property' ||
      /^(?:Object|Array|Function|ArrowFunction)Expression$/.test(each.value.type)
    )
      return [];
    return keyOf(each.key, each.computed) ?? [];
  });
}

const fieldNamed = (name: string): Field => ({ name, path: [name] });

/** The proposed payload and key of an event. */
interface Offer {
  /** An expression. `undefined`: the function was not inspected. */
  readonly payload: string | undefined;
  readonly key: string | undefined;
  /** Fields that may be secret or personal, or have no name in expressions. The user decides on them. */
  readonly leftOut: readonly string[];
}

/** Parameters that carry infrastructure, not data. */
const carriers =
  /^(?:res|response|reply|next|ctx|context|tx|trx|transaction|t|client|conn|connection|db|database|pool|manager|em|session|options|opts|logger|log|signal|callback|cb|done|_.*)$/;
const delicate =
  /passw|secret|token|credential|authori[sz]ation|cookie|\bpin\b|cvv|cvc|card|iban|\bssn\b|account|e-?mail|phone|mobile|(?:first|last|full|user|nick|maiden|given|family).?name|surname|holder|^(?:user|person|profile|owner|member|contact)$|recipient|beneficiary|guest|passport|tax.?id|salary|address|street|birth|\bip\b|gender|note|comment|message/i;
/** The `name` of these is that of a person. */
const people =
  /(?:^|_)(?:CUSTOMER|USER|PERSON|MEMBER|EMPLOYEE|PATIENT|GUEST|CONTACT|CLIENT|STUDENT|DRIVER|PASSENGER|SUBSCRIBER|PROFILE|OWNER|TENANT|APPLICANT|CANDIDATE|LEAD|ACCOUNT)$/;
const reserved = /^(?:result|args|self|this|error|[pa]\d+)$/;
/** Other names do not work in expressions. */
const plainName = /^[A-Za-z_$][\w$]*$/;
const maxFields = 8;

const nothingToSay = '{ ok: true }';

/** @param noun of the event type, `ORDER`: an `id` in the result becomes `orderId` */
export function offerOf(node: AnyFunction, program: Program, noun: string, own?: OwnSource): Offer {
  const fields = new Map<string, string>();
  const leftOut = new Set<string>();
  const source: Source = own ?? { file: '', program };
  const isDelicate = (name: string): boolean =>
    name !== idName && (delicate.test(name) || (name === 'name' && people.test(noun)));
  const add = ({ name, path }: Field, root: string): void => {
    if (isDelicate(name) || ![name, ...path].every((each) => plainName.test(each))) leftOut.add(name);
    else if (!fields.has(name) && fields.size < maxFields) fields.set(name, [root, ...path].join('.'));
  };
  const idName = `${camel(noun)}Id`;
  const named = (field: Field): Field => (field.name === 'id' ? { ...field, name: idName } : field);
  const result = fieldsOfResult(node, source);
  for (const field of result.fields.filter(isId)) add(named(field), '#result');
  const names = parameterNames(node);
  for (const [index, parameter] of parametersOf(node).entries()) {
    const name = names[index] ?? '';
    if (carriers.test(name) || parameter.type === 'RestElement') continue;
    const root = name === '' || reserved.test(name) ? `#p${index}` : `#${name}`;
    const inside = fieldsOfParameter(parameter, name, node, source);
    for (const field of inside ?? [{ name, path: [] }]) if (field.name !== '') add(named(field), root);
  }
  for (const field of result.fields) add(named(field), '#result');
  const key = fields.get(idName);
  const all = [...fields].map(([name, expression]) => `${name}: ${expression}`);
  // An unknown result could contain anything, so only its id is proposed.
  const nothingKnown = result.isNothing ? nothingToSay : `{ ${idName}: #result?.id }`;
  const payload = all.length > 0 ? `{ ${all.join(', ')} }` : nothingKnown;
  return { payload, key, leftOut: [...leftOut].filter((name) => !fields.has(name)) };
}

const isId = ({ name }: Field): boolean => name === 'id' || name.endsWith('Id');

/** `ORDER_ITEM` -> `orderItem`. */
function camel(noun: string): string {
  return noun.toLowerCase().replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
}

type FieldNames = readonly string[];

const values = /^TS(?:String|Number|Boolean|BigInt|Literal)(?:Keyword|Type)$/;
const nothings = /^TS(?:Void|Undefined|Null|Never)Keyword$/;

/** The names of the plain values in a type. `value`: the type itself is a plain value. `undefined`: unknown. */
function typeOf(type: Node, source: Source | OwnSource, depth = 0): FieldNames | 'value' | undefined {
  if (values.test(type.type)) return 'value';
  if (nothings.test(type.type)) return [];
  if (type.type === 'TSTypeLiteral') return fieldsIn(type.members, source, depth);
  if (type.type === 'TSUnionType') {
    const kinds = type.types.filter((each) => !nothings.test(each.type));
    return kinds.every((each) => typeOf(each, source, depth + 1) === 'value') ? 'value' : undefined;
  }
  if (type.type !== 'TSTypeReference' || type.typeName.type !== 'Identifier' || depth > 5) return undefined;
  const { name } = type.typeName;
  const [first, second] = type.typeArguments?.params ?? [];
  if (/^(?:Promise|Readonly|Required|Partial)$/.test(name) && first) return typeOf(first, source, depth + 1);
  if (/^(?:Omit|Pick)$/.test(name) && first && second) {
    const all = typeOf(first, source, depth + 1);
    const given = (second.type === 'TSUnionType' ? second.types : [second]).flatMap((each) =>
      each.type === 'TSLiteralType' && each.literal.type === 'Literal' ? [each.literal.value] : [],
    );
    return typeof all === 'object' ? all.filter((each) => given.includes(each) === (name === 'Pick')) : all;
  }
  if (name === 'Date') return 'value';
  return typeNamed(name, source, depth);
}

function typeNamed(
  name: string,
  source: Source | OwnSource,
  depth: number,
): FieldNames | 'value' | undefined {
  for (const statement of source.program.body) {
    const declared = declarationOf(statement);
    if (declared.type === 'TSInterfaceDeclaration' && declared.id.name === name) {
      const above = declared.extends.flatMap(({ expression }) => {
        const known =
          expression.type === 'Identifier' && depth <= 5 && typeNamed(expression.name, source, depth + 1);
        return typeof known === 'object' ? known : [];
      });
      return [...new Set([...fieldsIn(declared.body.body, source, depth), ...above])];
    }
    if (declared.type === 'TSTypeAliasDeclaration' && declared.id.name === name)
      return typeOf(declared.typeAnnotation, source, depth + 1);
    if (declared.type === 'ClassDeclaration' && declared.id?.name === name)
      return fieldsIn(declared.body.body, source, depth);
  }
  const imported = 'sources' in source && depth <= 5 ? importedFrom(name, source) : undefined;
  const other = imported && 'sources' in source ? source.sources.read(imported.file) : undefined;
  return imported && other && typeNamed(imported.path, other, depth + 1);
}

/** Nested objects could contain anything. The user adds them to the expression. */
function fieldsIn(members: readonly Node[], source: Source, depth: number): FieldNames {
  return members.flatMap((member) => {
    if (member.type === 'MethodDefinition' && member.kind === 'constructor' && isFunction(member.value))
      return member.value.params.flatMap((each) => {
        if (each.type !== 'TSParameterProperty' || each.parameter.type !== 'Identifier') return [];
        const type = annotationOf(each.parameter);
        return type && typeOf(type, source, depth + 1) === 'value' ? each.parameter.name : [];
      });
    const isField = member.type === 'TSPropertySignature' || member.type === 'PropertyDefinition';
    if (!isField || ('static' in member && member.static)) return [];
    const type = member.typeAnnotation?.typeAnnotation;
    const key = keyOf(member.key, member.computed);
    const isPlain = type !== undefined && key?.startsWith('#') === false;
    return isPlain && typeOf(type, source, depth + 1) === 'value' ? key : [];
  });
}

/**
 * Parses `--target ./lib/orders.ts#createOrder=ORDER_CREATED` and inspects the function. The event type is optional.
 *
 * @throws WrongUse
 */
export function namedTarget(text: string, folder: string): NamedTarget {
  const [, module = '', path = '', given] = /^(.+)#([^#=]+)(?:=(.+))?$/.exec(text) ?? [];
  if (module === '' || path === '')
    throw new WrongUse(
      '--target takes <module>#<function>[=<event type>], as ./src/orders.ts#createOrder=ORDER_CREATED',
    );
  const eventType = given ?? eventTypeOfCommand(path, module) ?? constantOf(path);
  const located = locate(module, folder);
  if (isProblem(located)) throw new WrongUse(`--target ${text}: ${located.problem}`);
  const [file] = 'paths' in located ? located.paths : [];
  const plain = { module, path, eventType, payload: undefined, key: undefined, leftOut: [] };
  if (file === undefined) return plain;
  const source = readFileSync(file, 'utf8');
  const { program, functions } = ownFunctions(file, source);
  const found = functions.find((each) => each.path === path);
  // A path such as `createRepository().insert` is checked before the file is written.
  if (found === undefined || program === undefined) return plain;
  const own = new Sources([file]).read(file);
  const offer = offerOf(found.node, program, nounOf(eventType), own);
  return { ...plain, ...offer, line: lineAt(source, found.node.start) };
}

/** `OrderService.prototype.mark` -> `ORDER_SERVICE_MARK`. */
function constantOf(path: string): string {
  return path
    .replace(/\bprototype\b/g, '')
    .replace(/([a-z0-9])([A-Z])/g, '$1_$2')
    .replace(/[^A-Za-z0-9]+/g, '_')
    .replace(/^_|_$/g, '')
    .toUpperCase();
}

/** Irregular past tenses. */
const irregular: Readonly<Record<string, string>> = {
  ...{ pay: 'PAID', send: 'SENT', withdraw: 'WITHDRAWN', cancel: 'CANCELLED', submit: 'SUBMITTED' },
  ...{
    ship: 'SHIPPED',
    transfer: 'TRANSFERRED',
    buy: 'BOUGHT',
    sell: 'SOLD',
    begin: 'BEGUN',
    checkout: 'CHECKED_OUT',
  },
};

const verbs = new Set([
  ...[
    'create',
    'add',
    'insert',
    'save',
    'register',
    'place',
    'book',
    'order',
    'buy',
    'sell',
    'open',
    'start',
    'begin',
  ],
  ...[
    'update',
    'change',
    'edit',
    'rename',
    'assign',
    'move',
    'transfer',
    'deposit',
    'withdraw',
    'reserve',
    'release',
  ],
  ...['cancel', 'delete', 'remove', 'archive', 'restore', 'close', 'finish', 'complete', 'expire', 'revoke'],
  ...['pay', 'charge', 'refund', 'capture', 'checkout', 'invoice', 'ship', 'deliver', 'dispatch', 'process'],
  ...[
    'submit',
    'approve',
    'reject',
    'accept',
    'decline',
    'confirm',
    'schedule',
    'reschedule',
    'invite',
    'enroll',
  ],
  ...[
    'subscribe',
    'unsubscribe',
    'activate',
    'deactivate',
    'enable',
    'disable',
    'block',
    'unblock',
    'publish',
  ],
]);

/** Infrastructure that functions create, such as a server or a repository. */
const plumbing =
  /(?:^|_)(?:SERVER|APP|APPLICATION|ROUTER|ROUTES?|MIDDLEWARE|LOGGER|CLIENT|CONNECTION|POOL|DATABASE|DB|REPOSITORY|SERVICE|CONTROLLER|FACTORY|STORE|CONTEXT|CONFIG|OPTIONS|ELEMENT|LISTENERS?|HANDLERS?|HOOKS?|WORKER|QUEUE|PRODUCER|CONSUMER|TRACER|SPAN|TIMER|HASH|SCHEMA|TABLES?|INDEX|STREAM|SOCKET|MODULE|PLUGIN|PROXY|INSTANCE|ERROR|TRANSACTION|MOCK|ID|URL|HEADERS?|PROCESS|REQUEST|RESPONSE|STATE|CACHE|LOCK|JWT)$/;

const roles = /(?:Service|Repository|Repo|Controller|Manager|Handler|Store|Dao|Model|UseCase|Gateway|Api)$/;
const namelessFiles =
  /^(?:index|main|service|services|repository|controller|handlers?|commands?|app|server)$/;

/** `ORDER_CREATED` for `createOrder`, and for `create` of `OrderService`. `undefined`: not a command. */
export function eventTypeOfCommand(path: string, file: string): string | undefined {
  const names = path.split('.').filter((name) => name !== 'prototype');
  const [verb = '', ...rest] = wordsOf(names.at(-1) ?? '');
  if (!verbs.has(verb)) return undefined;
  const noun = rest.length > 0 ? rest : wordsOf(ownerOf(names, file));
  const past = irregular[verb] ?? pastOf(verb).toUpperCase();
  const named = noun.join('_').toUpperCase();
  return plumbing.test(named) ? undefined : [named, past].filter(Boolean).join('_');
}

/** Of two functions with the same event type, domain code comes before storage and transport. */
function distanceOf(path: string, file: string): number {
  return /repositor|repo\b|dao|model|store|controller|route|handler|client|gateway/i.test(`${file} ${path}`)
    ? 1
    : 0;
}

function ownerOf(names: readonly string[], file: string): string {
  const named = singular((names.at(-2) ?? '').replace(roles, ''));
  if (named !== '' && !/^(?:default|exports|self|this|db|repo|api|app)$/.test(named)) return named;
  const [stem = ''] = basename(file).split('.');
  const place = namelessFiles.test(stem) ? basename(dirname(file)) : stem;
  const noun = wordsOf(place).filter(
    (word) => !/^(?:service|repository|repo|controller|handler|store|model|src|lib)s?$/.test(word),
  );
  return noun.length === 0 ? '' : singular(noun.join('_'));
}

/** Splits `createOrderItem` and `create_order_item` alike. */
function wordsOf(name: string): string[] {
  return name
    .replace(/([a-z0-9])([A-Z])/g, '$1_$2')
    .split(/[^A-Za-z0-9]+/)
    .filter(Boolean)
    .map((word) => word.toLowerCase());
}

function singular(noun: string): string {
  if (/ies$/i.test(noun)) return noun.replace(/ies$/i, 'y');
  return /[^su]s$/i.test(noun) ? noun.slice(0, -1) : noun;
}

function pastOf(verb: string): string {
  if (verb.endsWith('e')) return `${verb}d`;
  return /[^aeiou]y$/.test(verb) ? `${verb.slice(0, -1)}ied` : `${verb}ed`;
}
