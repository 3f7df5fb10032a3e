import { existsSync, readFileSync } from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import type { Node, Program } from 'oxc-parser';
import { followImports } from '../capture/inspect.ts';
import { ownFunctions } from '../capture/source/find.ts';
import { lineAt } from '../capture/source/parse-text.ts';
import { sourceOf, sourcesIn } from '../capture/source/source-files.ts';
import {
  type AnyFunction,
  children,
  isFunction,
  keyOf,
  memberPath,
  parameterNames,
  parametersOf,
} from '../capture/source/syntax.ts';
import { locate } from '../capture/source/target-files.ts';
import { isProblem } from '../capture/source/wrapper-place.ts';
import { isFile, type Manifest } from '../ground/files.ts';
import { entryAt } from './check-start.ts';
import { WrongUse } from './wrong-use.ts';

/** A function that is to be a target; `line` where its file shows it. */
type NamedTarget = Omit<Candidate, 'distance' | 'line'> & { readonly line?: number };

/** What `svc init` was told. */
export interface Answers {
  readonly targets: readonly NamedTarget[];
  /** `host:port`; none: events go to files. */
  readonly brokers: readonly string[];
  readonly topic: string;
}

/** `svc.config.yaml`, for people to go on with. @param schema where the JSON Schema lies, from the folder of the file */
export function configText({ targets, brokers, topic }: Answers, schema: string): string {
  const broker =
    brokers.length === 0
      ? [
          '    # bootstrap-servers: [localhost:9092]   # Kafka; without it events go to files in ./svc-topics',
          `    topic: ${quoted(topic)}`,
        ]
      : [`    bootstrap-servers: [${brokers.map(quoted).join(', ')}]`, `    topic: ${quoted(topic)}`];
  const lines = [
    `# yaml-language-server: $schema=${schema}`,
    '#',
    '# Which calls of this application become events. Each setting, with its default: docs/configuration.md of svc.',
    '# "npx --no svc check" says whether each target is found, "npx --no svc doctor" whether the broker takes events.',
    'svc:',
    '  broker:',
    ...broker,
    `    # dlq-topic: ${quoted(`${topic}.dlq`)}   # where events go that the topic does not take`,
    '    # async-mode: true   # calls do not wait until their event is acknowledged; a kill -9 then loses what is in memory',
    '',
    '  # Expressions see #result, the parameters by their names, and #self: docs/expressions.md.',
    '  # What must not leave the process as it is: svc.pii.fields masks, encrypts or hashes it: docs/personal-data.md.',
    '  targets:',
    ...targets.flatMap(targetLines),
  ];
  return `${lines.join('\n')}\n`;
}

function targetLines({ module, path, line, eventType, payload, key, leftOut }: NamedTarget): string[] {
  return [
    `    - module: ${quoted(module)}${line === undefined ? '' : `   # line ${line}`}`,
    `      function: ${quoted(path)}`,
    `      eventType: ${quoted(eventType)}`,
    payload === undefined
      ? '      # payload: "{ id: #result.id }"   # left out: all that the function returns'
      : `      payload: ${JSON.stringify(payload)}`,
    ...(leftOut.length === 0
      ? []
      : [
          `      # left out, for it may be personal or secret, or has a name that no expression takes: ${leftOut.map((name) => JSON.stringify(name).slice(1, -1)).join(', ')}`,
        ]),
    key === undefined
      ? '      # key: "#result.id"   # events of one key keep their order; left out: the event id'
      : `      key: ${JSON.stringify(key)}   # events of one key keep their order`,
  ];
}

/** Plain where YAML reads it as the same text. */
function quoted(text: string): string {
  return /^[A-Za-z./][\w./:-]*$/.test(text) &&
    !/^(?:true|false|null|yes|no|on|off)$/i.test(text) &&
    !/:$|: /.test(text)
    ? text
    : JSON.stringify(text);
}

/** A function that may become a target. */
export interface Candidate extends Offer {
  /** As a target names it: `./src/orders.ts`. */
  readonly module: string;
  readonly path: string;
  readonly line: number;
  readonly eventType: string;
  readonly distance: number;
}

const tests =
  /(?:^|\/)(?:tests?|__tests__|__mocks__|specs?|e2e|fixtures|examples|scripts|migrations|seeds?)\/|\.(?:test|spec|e2e|mock|stories|config)\./;

/** What may be offered, those nearest to the business first, and how many functions were read. */
export interface Search {
  readonly candidates: readonly Candidate[];
  readonly functionCount: number;
}

/**
 * The functions of an application that look like commands, by reading alone.
 *
 * @param entries of its start: where they are known, only files that it loads are read
 */
export function findCommands(folder: string, entries: readonly string[] | undefined): Search {
  const loaded = entries === undefined ? [] : [...followImports(entries, folder).files];
  const read = loaded.length > 0 ? loaded.map(writtenAs) : sourcesIn(folder);
  const files = [...new Set(read)].sort();
  const candidates: Candidate[] = [];
  let functionCount = 0;
  for (const file of files) {
    const shown = relative(folder, file).replaceAll('\\', '/');
    if (shown.startsWith('../') || tests.test(shown) || shown.includes('node_modules/')) continue;
    try {
      const text = sourceOf(file);
      const { program, functions } =
        text === undefined ? { program: undefined, functions: [] } : ownFunctions(file, text);
      functionCount += functions.length;
      if (program === undefined || text === undefined) continue;
      for (const { path, node } of functions) {
        const eventType = eventTypeOfCommand(path, shown);
        if (eventType === undefined) continue;
        candidates.push({
          ...{ module: `./${shown}`, path, eventType, line: lineAt(text, node.start) },
          ...{
            distance: distanceOf(path, shown),
            ...offerOf(node, program, eventType.replace(/_[^_]+$/, '')),
          },
        });
      }
    } catch {
      // It may be gone meanwhile, or not be readable: it offers nothing.
    }
  }
  // Stable: as they stand in the files.
  return { candidates: candidates.sort((a, b) => a.distance - b.distance), functionCount };
}

/**
 * The source of a built file by its source map, by which a start finds its functions as well: in what was built types are gone, and with them
 * what is known of fields. The file itself where there is no map, or it was made of several.
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

/** One for each event type: a service and its repository would else both publish an order. */
export function oneOfEach(candidates: readonly Candidate[]): readonly Candidate[] {
  return [...new Map([...candidates].reverse().map((each) => [each.eventType, each])).values()].reverse();
}

/** A value inside of a parameter or of the result, by a name for it in an event. */
interface Field {
  readonly name: string;
  readonly path: readonly string[];
}

const isIdName = (name: string): boolean => /^id$|Id$|^_?uuid$/.test(name);

/** What is inside of one, as its pattern, its type or the function's own reading shows; `undefined`: it is a value itself. */
function fieldsOfParameter(
  parameter: Node,
  name: string,
  node: AnyFunction,
  program: Program,
): readonly Field[] | undefined {
  const target = parameter.type === 'AssignmentPattern' ? parameter.left : parameter;
  if (target.type === 'ObjectPattern') return keysOfPattern(target).map(fieldNamed);
  const annotation = target.type === 'Identifier' ? target.typeAnnotation : undefined;
  const type = annotation ? typeOf(annotation.typeAnnotation, program) : undefined;
  if (type === 'value') return undefined;
  if (type !== undefined) return type.map(fieldNamed);
  const read = node.body ? fieldsRead(node.body, name) : [];
  if (read.length > 0) return read;
  // What is of no known type may be an object, which could hold anything: JavaScript, or what was built of TypeScript.
  return annotation || !isIdName(name) ? [] : undefined;
}

/** What the function returns, as far as its type or its text shows. */
function fieldsOfResult(
  node: AnyFunction,
  program: Program,
): { readonly fields: readonly Field[]; readonly isNothing: boolean } {
  const written = node.returnType ? typeOf(node.returnType.typeAnnotation, program) : undefined;
  if (written === 'value') return { fields: [], isNothing: false };
  if (written !== undefined) return { fields: written.map(fieldNamed), isNothing: written.length === 0 };
  const returned = node.body ? returnedBy(node.body) : [];
  const names = returned.flatMap((value) => fieldsOfValue(value, node));
  return {
    fields: [...new Map(names.map((each) => [each.name, each])).values()],
    isNothing: returned.length === 0,
  };
}

function fieldsOfValue(value: Node, node: AnyFunction): readonly Field[] {
  if (value.type === 'ObjectExpression') return keysOfObject(value).map(fieldNamed);
  if (value.type !== 'Identifier' || !node.body) return [];
  const made = initOf(node.body, value.name);
  const keys = made?.type === 'ObjectExpression' ? keysOfObject(made).map(fieldNamed) : [];
  return [...keys, ...fieldsRead(node.body, value.name)];
}

/** `order.customer.id` and `const { id } = order.customer` read `customerId`. What is called is a method and no field. */
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
    // What is written is not what the caller gave.
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

/** What stands behind `return`, not in functions inside. */
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

/** Those whose value is no object, list or function in the text. */
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

/** What a function offers for an event. */
interface Offer {
  /** An expression; `undefined`: nobody has looked at the function. */
  readonly payload: string | undefined;
  readonly key: string | undefined;
  /** Fields that may be secrets or personal data, or that no expression can name, which somebody has to decide on. */
  readonly leftOut: readonly string[];
}

/** What carries a call about, and says nothing of its matter. */
const carriers =
  /^(?:res|response|reply|next|ctx|context|tx|trx|transaction|t|client|conn|connection|db|database|pool|manager|em|session|options|opts|logger|log|signal|callback|cb|done|_.*)$/;
const delicate =
  /passw|secret|token|credential|authori[sz]ation|cookie|\bpin\b|cvv|cvc|card|iban|\bssn\b|account|e-?mail|phone|mobile|first.?name|last.?name|full.?name|surname|address|street|birth|\bip\b|gender|note|comment|message/i;
const reserved = /^(?:result|args|self|this|error|[pa]\d+)$/;
/** Others have no name in an expression. */
const plainName = /^[A-Za-z_$][\w$]*$/;
const mostFields = 8;

/** @param noun of the event type, `ORDER`: an `id` in the result is then `orderId` */
export function offerOf(node: AnyFunction, program: Program, noun: string): Offer {
  const fields = new Map<string, string>();
  const leftOut = new Set<string>();
  const add = ({ name, path }: Field, root: string): void => {
    if (delicate.test(name) || ![name, ...path].every((each) => plainName.test(each))) leftOut.add(name);
    else if (!fields.has(name) && fields.size < mostFields) fields.set(name, [root, ...path].join('.'));
  };
  const idName = `${camel(noun)}Id`;
  const named = (field: Field): Field => (field.name === 'id' ? { ...field, name: idName } : field);
  const result = fieldsOfResult(node, program);
  for (const field of result.fields.filter(isId)) add(named(field), '#result');
  const names = parameterNames(node);
  for (const [index, parameter] of parametersOf(node).entries()) {
    const name = names[index] ?? '';
    if (carriers.test(name) || parameter.type === 'RestElement') continue;
    const root = name === '' || reserved.test(name) ? `#p${index}` : `#${name}`;
    const inside = fieldsOfParameter(parameter, name, node, program);
    for (const field of inside ?? [{ name, path: [] }]) if (field.name !== '') add(named(field), root);
  }
  for (const field of result.fields) add(named(field), '#result');
  const key = fields.get(idName);
  const all = [...fields].map(([name, expression]) => `${name}: ${expression}`);
  // Of what a function returns, of which nothing is known, only the id: it could hold anything.
  const nothingKnown = result.isNothing ? '{ ok: true }' : `{ ${idName}: #result?.id }`;
  const payload = all.length > 0 ? `{ ${all.join(', ')} }` : nothingKnown;
  return { payload, key, leftOut: [...leftOut].filter((name) => !fields.has(name)) };
}

const isId = ({ name }: Field): boolean => name === 'id' || name.endsWith('Id');

/** `ORDER_ITEM` as `orderItem`. */
function camel(noun: string): string {
  return noun.toLowerCase().replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
}

type FieldNames = readonly string[];

const values = /^TS(?:String|Number|Boolean|BigInt|Literal)(?:Keyword|Type)$/;
const nothings = /^TS(?:Void|Undefined|Null|Never)Keyword$/;

/** The names of the plain values in a type that this file writes down; `value` for one itself, `undefined` where it is not known. */
function typeOf(type: Node, program: Program, depth = 0): FieldNames | 'value' | undefined {
  if (values.test(type.type)) return 'value';
  if (nothings.test(type.type)) return [];
  if (type.type === 'TSTypeLiteral') return fieldsIn(type.members, program, depth);
  if (type.type === 'TSUnionType') {
    const kinds = type.types.filter((each) => !nothings.test(each.type));
    return kinds.every((each) => typeOf(each, program, depth + 1) === 'value') ? 'value' : undefined;
  }
  if (type.type !== 'TSTypeReference' || type.typeName.type !== 'Identifier' || depth > 5) return undefined;
  const { name } = type.typeName;
  const [first] = type.typeArguments?.params ?? [];
  if (/^(?:Promise|Readonly|Required|Partial)$/.test(name) && first) return typeOf(first, program, depth + 1);
  if (name === 'Date') return 'value';
  for (const statement of program.body) {
    const declared =
      statement.type === 'ExportNamedDeclaration' && statement.declaration
        ? statement.declaration
        : statement;
    if (declared.type === 'TSInterfaceDeclaration' && declared.id.name === name)
      return fieldsIn(declared.body.body, program, depth);
    if (declared.type === 'TSTypeAliasDeclaration' && declared.id.name === name)
      return typeOf(declared.typeAnnotation, program, depth + 1);
  }
  return undefined;
}

/** Objects inside could hold anything: they are left to the person who writes the expression. */
function fieldsIn(members: readonly Node[], program: Program, depth: number): FieldNames {
  return members.flatMap((member) => {
    if (member.type !== 'TSPropertySignature') return [];
    const type = member.typeAnnotation?.typeAnnotation;
    const isPlain = type !== undefined && typeOf(type, program, depth + 1) === 'value';
    return isPlain ? (keyOf(member.key, member.computed) ?? []) : [];
  });
}

/**
 * What `--target ./lib/orders.ts#createOrder=ORDER_CREATED` names, with what its function offers. The event type may be left out.
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
  // A form that is found by its path alone, as `createRepository().insert`: whether it is there is said before it is written.
  if (found === undefined || program === undefined) return plain;
  const noun = eventType.replace(/_[^_]+$/, '');
  return { ...plain, ...offerOf(found.node, program, noun), line: lineAt(source, found.node.start) };
}

/** `OrderService.prototype.mark` as `ORDER_SERVICE_MARK`. */
function constantOf(path: string): string {
  return path
    .replace(/\bprototype\b/g, '')
    .replace(/([a-z0-9])([A-Z])/g, '$1_$2')
    .replace(/[^A-Za-z0-9]+/g, '_')
    .replace(/^_|_$/g, '')
    .toUpperCase();
}

/** A script for package.json that starts the application with svc. */
export interface ScriptEntry {
  readonly name: string;
  readonly command: string;
}

/** Under a name of its own, so that the start of the application stays what it is. */
const scriptName = 'start:svc';
const preload = '--import svc/register';

/** `undefined` where it is there already, or where what starts the application is not known. */
export function scriptEntryOf({ scripts, folder, main }: Manifest): ScriptEntry | undefined {
  if ([...scripts.values()].some((command) => command.includes('svc/register'))) return undefined;
  const start = scripts.get('start');
  if (start !== undefined) {
    const command = start.replace(/^((?:\w+=\S+\s+)*(?:node|tsx))(?=\s)/, `$1 ${preload}`);
    return command === start || /[;&|]/.test(start) ? undefined : { name: scriptName, command };
  }
  const file = [
    main,
    'src/server.ts',
    'src/index.ts',
    'server.js',
    'app.js',
    'index.js',
    'src/server.js',
    'src/index.js',
  ]
    .filter((each) => each !== undefined)
    .find((each) => entryAt(join(folder, each)) !== undefined);
  return file === undefined ? undefined : { name: scriptName, command: `node ${preload} ${file}` };
}

/** The text of package.json with the entry, indented as it was: as npm itself would write it. */
export function withScript(folder: string, { name, command }: ScriptEntry): string {
  const text = readFileSync(join(folder, 'package.json'), 'utf8');
  const mark = text.startsWith('\uFEFF') ? '\uFEFF' : '';
  const manifest = JSON.parse(text.slice(mark.length)) as { scripts?: Record<string, string> };
  const [, indent = '  '] = /^\s*\{\r?\n([ \t]+)/.exec(text.slice(mark.length)) ?? [];
  const all = { ...manifest, scripts: { ...manifest.scripts, [name]: command } };
  const [end = ''] = /\s*$/.exec(text) ?? [];
  const written = JSON.stringify(all, null, indent);
  return `${mark}${text.includes('\r\n') ? written.replaceAll('\n', '\r\n') : written}${end}`;
}

/** Where the schema lies, as editors take it from beside the file. */
export function schemaPath(folder: string): string {
  const file = 'node_modules/svc/svc.config.schema.json';
  for (let up = '.', depth = 0; depth < 8; up = up === '.' ? '..' : `${up}/..`, depth++)
    if (existsSync(join(folder, up, file))) return `${up}/${file}`;
  return `./${file}`;
}

/** Past tenses that the rules do not make. */
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

/** What functions of a program make for the program itself: a server, a repository. */
const plumbing =
  /(?:^|_)(?:SERVER|APP|APPLICATION|ROUTER|ROUTES?|MIDDLEWARE|LOGGER|CLIENT|CONNECTION|POOL|DATABASE|DB|REPOSITORY|SERVICE|CONTROLLER|FACTORY|STORE|CONTEXT|CONFIG|OPTIONS|ELEMENT|LISTENERS?|HANDLERS?|HOOKS?|WORKER|QUEUE|PRODUCER|CONSUMER|TRACER|SPAN|TIMER|HASH|SCHEMA|TABLES?|INDEX|STREAM|SOCKET|MODULE|PLUGIN|PROXY|INSTANCE|ERROR|TRANSACTION|MOCK|ID|URL|HEADERS?|PROCESS|REQUEST|RESPONSE|STATE|CACHE|LOCK|JWT)$/;

const roles = /(?:Service|Repository|Repo|Controller|Manager|Handler|Store|Dao|Model|UseCase|Gateway|Api)$/;
const namelessFiles =
  /^(?:index|main|service|services|repository|controller|handlers?|commands?|app|server)$/;

/** `ORDER_CREATED` for `createOrder`, and for `create` of `OrderService`; `undefined` where it does not look like a command. */
export function eventTypeOfCommand(path: string, file: string): string | undefined {
  const names = path.split('.').filter((name) => name !== 'prototype');
  const [verb = '', ...rest] = wordsOf(names.at(-1) ?? '');
  if (!verbs.has(verb)) return undefined;
  const noun = rest.length > 0 ? rest : wordsOf(ownerOf(names, file));
  const past = irregular[verb] ?? pastOf(verb).toUpperCase();
  const named = noun.join('_').toUpperCase();
  return plumbing.test(named) ? undefined : [named, past].filter(Boolean).join('_');
}

/** Of two functions that publish the same, the one that stands nearer to the business comes first. */
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

/** `createOrderItem` and `create_order_item` alike. */
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
