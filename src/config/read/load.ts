// read/: reads file, environment and code into one configuration.

import { statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, parse, relative, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { types } from 'node:util';
import type { Event } from 'js-yaml';
import {
  foreignFile,
  hasManifest,
  isFile,
  isOpenToStrangers,
  readBoundedSync,
  readManifest,
} from '../../ground/files.ts';
import { usualClient } from '../../ground/management.ts';
import { nearestName } from '../../ground/names.ts';
import type { PathRule } from '../../ground/pii-rule.ts';
import {
  checkSettings,
  describeType,
  flatten,
  kindOfError,
  type Problem,
  type RawPath,
  type Setting,
  unreadableValue,
} from '../check/check.ts';
import type { Config, OptionValues } from '../config.ts';
import { camelCase, type Option, optionNamed, options, targetsName, variableOf } from '../schema/schema.ts';
import type { TargetConfig } from '../schema/target.ts';

type Settings = ReturnType<typeof flatten>;

interface LoadOptions {
  /** Default: the working directory. */
  readonly cwd?: string;
  /** Default: `process.env`. */
  readonly env?: Environment;
  /** The file of `--config`. Takes precedence over `SVC_CONFIG`. */
  readonly file?: string | undefined;
  /** Settings in code, in the shape of the file: `{ svc: { broker: { topic: 'orders' } } }`. They override all others. */
  readonly code?: object;
  /** Rules for personal data in code. Their keys and salt are required as for rules of the file. */
  readonly rules?: readonly Pick<PathRule, 'strategy' | 'keyId'>[];
}

export interface LoadedConfig {
  /** False without a file, a variable of svc's own, or code: svc then does nothing, without an error. */
  readonly found: boolean;
  /** If `found` is false: where svc looked, as a log line. */
  readonly notFound: string | undefined;
  /** Always complete, but unusable if there are problems. */
  readonly config: Config;
  /** Whether an option is set, by its documented name: `svc.broker.client`. */
  readonly isGiven: (name: string) => boolean;
  /** False if the file cannot be used. The first of `problems` says why. */
  readonly isReadable: boolean;
  /** Problems that prevent svc's start. */
  readonly problems: readonly Problem[];
  readonly warnings: readonly Problem[];
  /** Invalid targets. The others work. */
  readonly targetProblems: ReturnType<typeof checkSettings>['targetProblems'];
}

/** Loads the configuration synchronously: defaults < file < environment < code. Never throws; all errors are in `problems`. */
export function loadConfig(options: LoadOptions = {}): LoadedConfig {
  const env = options.env ?? process.env;
  const cwd = options.cwd ?? workingDirectory();
  const environment = readEnvironment(env);
  const code = options.code === undefined ? undefined : flattenSafely(options.code, () => 'code', 'code');
  // Switched off by code or environment: the file is not read.
  const isOff =
    (code?.settings.get('svc.enabled') ?? environment.settings.get('svc.enabled'))?.value === false;
  const found = isOff
    ? undefined
    : findFile(cwd, { '--config': options.file, [fileVariable]: env[fileVariable] });
  const file = found && readSettings(found, cwd);
  const isFound = found !== undefined || code !== undefined || asksForSvc(env);

  const settings = new Map([
    ...(file?.settings.settings ?? []),
    ...environment.settings,
    ...(code?.settings ?? []),
  ]);
  for (const setting of readShared(env, settings)) settings.set(setting.name, setting);
  const baseDir = found === undefined ? cwd : dirname(found.path);
  const isReadable = file?.isReadable !== false;
  const { rules = [] } = options;
  // Without a readable file, "topic is required" would hide the actual error.
  const checked = checkSettings({ settings, baseDir, env, rules, isUsed: isFound && isReadable });
  return {
    found: isFound,
    notFound: isFound ? undefined : notFoundMessage(cwd),
    config: buildConfig({ ...checked, baseDir, file: found?.path }),
    isGiven: (name) => settings.has(name),
    isReadable,
    problems: [
      ...(file?.settings.problems ?? []),
      ...environment.problems,
      ...(code?.problems ?? []),
      ...checked.problems,
    ],
    warnings: [...(file?.warnings ?? []), ...environment.warnings, ...checked.warnings],
    targetProblems: checked.targetProblems,
  };
}

interface FileSettings {
  readonly settings: Settings;
  readonly warnings: readonly Problem[];
  readonly isReadable: boolean;
}

function readSettings(found: FoundFile, cwd: string): FileSettings {
  const name = displayPath(found.path, cwd);
  const warnings: Problem[] = [];
  if (found.ignored.length > 0) {
    const message = `is used; ${found.ignored.join(' and ')} in the same folder ${found.ignored.length === 1 ? 'is' : 'are'} not read`;
    warnings.push({ name, message, fix: `Keep one of them, or name one in ${fileVariable}` });
  }
  const read = readFile(found, cwd);
  if (!read.ok) {
    const where = [read.problem.where, found.namedBy && `named by ${found.namedBy}`]
      .filter((part) => part)
      .join(', ');
    const problem = where === '' ? read.problem : { ...read.problem, where };
    return { settings: { settings: new Map(), problems: [problem] }, warnings, isReadable: false };
  }
  const settings = flattenSafely(read.content.root, read.content.where, name);
  const secrets = secretsIn(settings.settings, read.content.isLiteral);
  return { settings, warnings: [...warnings, ...read.warnings, ...secrets], isReadable: true };
}

/** Secrets in plain text, which everyone with access to the repository, an image or a backup can read. */
function secretsIn(settings: Settings['settings'], isLiteral: (value: string) => boolean): Problem[] {
  return [...settings.values()].flatMap(({ name, value, where }): Problem[] => {
    const option = optionNamed(name);
    const texts = option === undefined ? [] : secretTexts(option, value);
    if (!texts.some(isLiteral)) return [];
    const message = 'is a secret in plain text: anyone who can read the file has it';
    const fix = `Remove it and set the environment variable ${variableOf(name)}`;
    return [{ name, message, where: where(), fix }];
  });
}

const withPassword =
  /^\w+:\/\/[^/?#\s]*:[^/?#\s]+@|[?&](?:password|pass|pwd|token|secret|api[-_]?key|access[-_]?key)=[^&#]/i;

/** The secret parts of a value. */
function secretTexts({ secret, format, type }: Option, value: unknown): string[] {
  if (type === 'keys') {
    const keys = Array.isArray(value) ? value.map((each: { key?: unknown } | null) => each?.key) : [value];
    return keys.filter((each) => typeof each === 'string');
  }
  const isUrl = format === 'url' || format === 'datasource-url';
  const isSecret = isUrl ? typeof value === 'string' && withPassword.test(value) : secret === true;
  return isSecret && typeof value === 'string' && value !== '' ? [value] : [];
}

function flattenSafely(root: object, where: (path: RawPath) => string, name: string): Settings {
  try {
    return flatten(root, where);
  } catch (error) {
    return { settings: new Map(), problems: [unreadableValue(name, error)] };
  }
}

/** A deleted working directory has no path. */
function workingDirectory(): string {
  try {
    return process.cwd();
  } catch {
    return parse(process.execPath).root;
  }
}

interface ConfigParts {
  readonly values: ReadonlyMap<string, unknown>;
  readonly targets: readonly TargetConfig[];
  readonly baseDir: string;
  readonly file: string | undefined;
}

type Tree = { [name: string]: unknown };

/** Builds the nested configuration: `svc.broker.client-id` at `broker.clientId`. */
function buildConfig({ values, targets, baseDir, file }: ConfigParts): Config {
  const root: Tree = {};
  for (const option of options) {
    place(root, option, finish(option, values, baseDir));
  }
  // Its type is generated from the same table.
  return { ...(root as OptionValues), targets, baseDir, file };
}

function finish(option: Option, values: ConfigParts['values'], baseDir: string): unknown {
  const value = values.get(option.name);
  if (option.format === 'path' && typeof value === 'string') return resolve(baseDir, value);
  switch (option.name) {
    case 'svc.broker.client':
      return value ?? usualClient((values.get('svc.broker.bootstrap-servers') as string[]).length > 0);
    case 'svc.broker.topic':
      return value ?? '';
    case 'svc.service.name':
    case 'svc.service.version':
      return value ?? null;
    case 'svc.outbox.datasource.url':
      return typeof value === 'string'
        ? value.replace(/^(sqlite:)(.+)$/, (_, scheme, path) => scheme + resolve(baseDir, path))
        : value;
    case 'svc.pii.crypto.keys':
      return value ?? [];
    case 'svc.context.correlation-id.headers':
      return (value as string[]).map((name) => name.toLowerCase());
    default:
      return value;
  }
}

function place(root: Tree, option: Option, value: unknown): void {
  const path = option.name.split('.').map(camelCase);
  if (path[0] === 'svc') path.shift();
  const last = path.pop() ?? '';
  let section = root;
  for (const part of path) {
    section[part] ??= {};
    section = section[part] as Tree;
  }
  section[last] = value;
}

interface FileContent {
  readonly root: object;
  /** `svc.config.yaml:7` */
  readonly where: (path: RawPath) => string;
  /** Whether the file's text contains the value. Code may read it from `process.env`, for example. */
  readonly isLiteral: (value: string) => boolean;
}

type ReadFile =
  | { readonly ok: true; readonly content: FileContent; readonly warnings: readonly Problem[] }
  | { readonly ok: false; readonly problem: Problem };

type Parsed =
  | {
      readonly ok: true;
      readonly value: unknown;
      readonly lineOf: (path: RawPath) => number | undefined;
      /** Its text, if the file is code. */
      readonly code?: string;
    }
  | { readonly ok: false; readonly problem: Problem };

/** Enough for thousands of targets. */
const maxConfigBytes = 16 * 1024 ** 2;

/** Reads a configuration file. An empty file is an empty object with a warning. */
function readFile({ path, namedBy }: FoundFile, cwd: string): ReadFile {
  const name = displayPath(path, cwd);
  // A file that is named explicitly is trusted, whoever may change it.
  const foreign = namedBy === undefined ? foreignFile(path, isCode(path)) : undefined;
  if (foreign !== undefined) return { ok: false, problem: { name, ...foreign } };
  const parsed = parseFile(path, name, namedBy);
  if (!parsed.ok) return parsed;
  const { value, lineOf, code } = parsed;
  const where = (rawPath: RawPath) => {
    const line = lineOf(rawPath);
    return line === undefined ? name : `${name}:${line}`;
  };
  if (value === null || value === undefined) {
    const content = { root: {}, where, isLiteral: () => false };
    return { ok: true, content, warnings: [{ name, message: 'is empty' }] };
  }
  if (typeof value !== 'object' || Array.isArray(value)) {
    const fix = 'Begin the file with svc:, and put the names under it';
    return {
      ok: false,
      problem: { name, message: 'must hold names and values', got: describeType(value), fix },
    };
  }
  const isLiteral = (text: string) =>
    code === undefined || ['"', "'", '`'].some((quote) => code.includes(quote + text + quote));
  return { ok: true, content: { root: value, where, isLiteral }, warnings: [] };
}

/** Relative if the file is in the working directory. */
function displayPath(path: string, cwd: string): string {
  const short = relative(cwd, path);
  return short === '' || short.startsWith('..') ? path : short;
}

function endingOf(path: string): string {
  return path.slice(path.lastIndexOf('.') + 1).toLowerCase();
}

function isCode(path: string): boolean {
  return ['mjs', 'cjs', 'js', 'ts', 'mts', 'cts'].includes(endingOf(path));
}

function parseFile(path: string, name: string, namedBy: string | undefined): Parsed {
  const ending = endingOf(path);
  if (!isCode(path) && !['yaml', 'yml', 'json'].includes(ending)) {
    const fix = 'Name a .yaml, .yml, .json, .mjs or .ts file';
    return { ok: false, problem: { name, message: 'has an extension that svc does not read', fix } };
  }
  let text: string;
  try {
    // Code is read, too, so that a missing file or a folder gets the same message.
    text = readBoundedSync(path, maxConfigBytes).toString();
  } catch (error) {
    return { ok: false, problem: { name, ...explainRead((error as NodeJS.ErrnoException).code, namedBy) } };
  }
  if (isCode(path)) {
    const loaded = loadModule(path, name);
    return loaded.ok ? { ...loaded, lineOf: () => undefined, code: text } : loaded;
  }
  return ending === 'json' ? parseJson(text, name) : parseYamlFile(text, name);
}

function explainRead(code: string | undefined, namedBy: string | undefined): Omit<Problem, 'name'> {
  if (code === 'ENOENT') {
    const fix = namedBy === undefined ? 'Create the file' : `Correct ${namedBy}, or create the file`;
    return { message: 'does not exist', fix };
  }
  if (code === 'EISDIR') return { message: 'is a folder, not a file', fix: 'Name a file' };
  if (code === 'EACCES')
    return {
      message: 'cannot be read: permission denied',
      fix: "Give the application's user the right to read it",
    };
  if (code === 'EFBIG')
    return {
      message: `is larger than ${maxConfigBytes / 1024 ** 2} MiB`,
      fix: 'Name the configuration file',
    };
  return { message: `cannot be read: ${code}` };
}

function parseYamlFile(text: string, name: string): Parsed {
  const parsed = parseYaml(text);
  if (parsed.ok) return parsed;
  const where = parsed.line === undefined ? undefined : `line ${parsed.line}`;
  return { ok: false, problem: { name, message: parsed.reason, where } };
}

function parseJson(text: string, name: string): Parsed {
  const bare = text.replace(/^\uFEFF/, '');
  if (bare.trim() === '') return { ok: true, value: null, lineOf: () => undefined };
  try {
    const value: unknown = JSON.parse(bare);
    // JSON is valid YAML, so its parser finds the lines. It is loaded only for a message.
    let asYaml: ParsedText | undefined;
    const lineOf = (path: RawPath): number | undefined => {
      asYaml ??= parseYaml(bare);
      return asYaml.ok ? asYaml.lineOf(path) : undefined;
    };
    return { ok: true, value, lineOf };
  } catch (error) {
    // The rest of the message quotes the text.
    const position = /at position (\d+)/.exec(String((error as Error).message))?.[1];
    const line = position === undefined ? undefined : bare.slice(0, Number(position)).split('\n').length;
    const where = line === undefined ? undefined : `line ${line}`;
    return {
      ok: false,
      problem: {
        name,
        message: 'is not valid JSON',
        where,
        fix: 'Comments and trailing commas are not allowed',
      },
    };
  }
}

/** In order of precedence within a folder. */
export const fileNames: readonly string[] = ['yaml', 'yml', 'json', 'mjs', 'ts'].map(
  (ending) => `svc.config.${ending}`,
);

interface FoundFile {
  /** Absolute. */
  readonly path: string;
  /** `SVC_CONFIG` or `--config`, which requires that the file exists. */
  readonly namedBy?: string | undefined;
  /** Further configuration files of the folder. They are not read. */
  readonly ignored: readonly string[];
}

/** Files by what names them, in order of precedence. */
type NamedFile = Readonly<Record<string, string | undefined>>;

/** The configuration file: the named one, or else the nearest from the working directory up to the project's root. */
function findFile(cwd: string, named: NamedFile): FoundFile | undefined {
  for (const [namedBy, name = ''] of Object.entries(named))
    if (name.trim() !== '') return { path: resolve(cwd, name.trim()), namedBy, ignored: [] };
  for (const folder of searchFolders(cwd)) {
    const [first, ...ignored] = filesIn(folder);
    if (first !== undefined) return { path: join(folder, first), ignored };
  }
  return undefined;
}

/** Where `findFile` looked, and what to do. */
function notFoundMessage(cwd: string): string {
  const folders = searchFolders(cwd);
  const last = folders.length > 1 ? ` and the folders above it up to ${folders.at(-1)}` : '';
  return (
    `no configuration: looked for svc.config.{yaml,yml,json,mjs,ts} in ${cwd}${last}, ` +
    `and for environment variables that begin with SVC_. ${beyond(folders.at(-1) ?? cwd)}` +
    `Create svc.config.yaml (npx --no svc init), or name a file in ${fileVariable}.`
  );
}

/** Earlier versions read a file above the project. */
function beyond(last: string): string {
  for (let folder = dirname(last); ; folder = dirname(folder)) {
    const [first] = filesIn(folder);
    if (first !== undefined) return `${join(folder, first)} is outside the project and is not read. `;
    if (dirname(folder) === folder) return '';
  }
}

function filesIn(folder: string): string[] {
  return fileNames.filter((name) => exists(join(folder, name)));
}

function exists(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch {
    // The folder may not be read, or a file is in its place.
    return false;
  }
}

/** Marks the root of a workspace, like `workspaces` in its package.json. */
const workspaceFiles = ['pnpm-workspace.yaml', 'lerna.json', 'rush.json'];

/** Fields of a package.json that only tells Node how to read a folder, such as `dist/cjs`. */
const markerFields = ['type', 'sideEffects', 'private'];

/**
 * Folders that may contain the configuration, nearest first: from `cwd` to the nearest package.json of a project, and on to the root of
 * its workspace. Without a package.json, `cwd` alone. The search ends below a folder that other users can write to.
 */
function searchFolders(cwd: string): readonly string[] {
  const folders = [cwd];
  for (let folder = dirname(cwd); folder !== folders.at(-1); folder = dirname(folder)) {
    if (isOpenToStrangers(folder, cwd)) break;
    folders.push(folder);
  }
  let project = folders.findIndex((folder) => hasManifest(folder) && !isMarker(folder));
  if (project < 0) project = folders.findIndex(hasManifest);
  if (project < 0) return [cwd];
  const workspace = folders.findIndex((folder, index) => index >= project && isWorkspace(folder));
  return folders.slice(0, Math.max(project, workspace) + 1);
}

/** An unreadable package.json ends the search like any other. */
function isMarker(folder: string): boolean {
  return readManifest(folder)?.fieldNames.every((field) => markerFields.includes(field)) ?? false;
}

function isWorkspace(folder: string): boolean {
  if (readManifest(folder)?.fieldNames.includes('workspaces')) return true;
  return workspaceFiles.some((name) => isFile(join(folder, name)));
}

type LoadedModule =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly problem: Problem };

/** Runs a configuration file that is code (`.mjs`, `.ts`, …) and returns its default export. Synchronous. */
function loadModule(path: string, name: string): LoadedModule {
  let exported: unknown;
  try {
    exported = createRequire(path)(path);
  } catch (error) {
    return { ok: false, problem: { name, ...explain(error, path) } };
  }
  if (typeof exported === 'object' && exported !== null && 'default' in exported) {
    return checkPromise(exported.default, name);
  }
  if (types.isModuleNamespaceObject(exported)) {
    return {
      ok: false,
      problem: { name, message: 'has no default export', fix: 'Write export default { svc: { … } }' },
    };
  }
  return checkPromise(exported, name);
}

function checkPromise(value: unknown, name: string): LoadedModule {
  if (!types.isPromise(value)) return { ok: true, value };
  // The promise is ignored, but its rejection must not end the process.
  value.catch(() => {});
  const fix = 'svc starts before the application and cannot wait. Export the object itself';
  return { ok: false, problem: { name, message: 'exports a promise', fix } };
}

function explain(error: unknown, path: string): Omit<Problem, 'name'> {
  const isError = types.isNativeError(error);
  const code = isError && 'code' in error ? error.code : undefined;
  if (code === 'ERR_REQUIRE_ASYNC_MODULE') {
    const fix = 'svc starts before the application and cannot wait. Remove the await';
    return { message: 'has a top-level await, or imports a module that has one', fix };
  }
  if (isTypeScript(path) && !runsTypeScript()) {
    const fix = `Use svc.config.mjs or svc.config.yaml, or run Node 22.18 or later without --no-strip-types`;
    return { message: `cannot be loaded: this Node (${process.version}) does not run TypeScript`, fix };
  }
  if (code === 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX') {
    const fix = 'Remove enums, namespaces and parameter properties';
    return { message: 'has TypeScript syntax that Node cannot strip', where: lineIn(error, path), fix };
  }
  const where = lineIn(error, path);
  if (code === 'MODULE_NOT_FOUND' || code === 'ERR_MODULE_NOT_FOUND')
    return { message: 'imports a module that cannot be found', where, fix: `Run node ${path} to see which` };
  // The rest of the error may quote the text, such as a password without quotes.
  const kind = kindOfError(error);
  const fix = kind === 'SyntaxError' ? `Run node --check ${path}` : `Run node ${path} to see the whole error`;
  return { message: `cannot be loaded: ${kind}`, where, fix };
}

function isTypeScript(path: string): boolean {
  return /\.[mc]?ts$/i.test(path);
}

/** Natively, or with a loader such as tsx. */
function runsTypeScript(): boolean {
  const { features } = process as { features: { typescript?: false | string } };
  return Boolean(features.typescript) || '.ts' in createRequire(import.meta.url).extensions;
}

/** `line 3`, if the stack contains it. */
function lineIn(error: unknown, path: string): string | undefined {
  const stack = types.isNativeError(error) ? String(error.stack) : '';
  const names = [pathToFileURL(path).href, path];
  const after = names.map((name) => stack.split(name)[1]).find((text) => text !== undefined);
  const line = after?.match(/^:(\d+)/)?.[1];
  return line && `line ${line}`;
}

type Yaml = typeof import('js-yaml');

/** A parsed text, or its first error. Never contains text of the file, which may be a password. */
type ParsedText =
  | { readonly ok: true; readonly value: unknown; readonly lineOf: (path: RawPath) => number | undefined }
  | { readonly ok: false; readonly reason: string; readonly line: number | undefined };

/** Parses YAML. Loads the parser, so that only applications with a YAML file pay for it. */
function parseYaml(text: string): ParsedText {
  const yaml = createRequire(import.meta.url)('js-yaml') as Yaml;
  try {
    const value = isBlank(text)
      ? null
      : yaml.load(text, { schema: yaml.CORE_SCHEMA.withTags(yaml.mergeTag) });
    let events: Event[] | undefined;
    const lineOf = (path: RawPath) => {
      events ??= yaml.parseEvents(text, {});
      return lineInOfReadYaml(text, events, path, yaml);
    };
    return { ok: true, value, lineOf };
  } catch (error) {
    if (error instanceof yaml.YAMLException) {
      return { ok: false, reason: reasonOf(error.reason), line: error.mark && error.mark.line + 1 };
    }
    return { ok: false, reason: notYaml, line: undefined };
  }
}

const notYaml = 'is not valid YAML';

/** Translates the parser's messages, because they quote the text, which may be a password. */
const mistakes: readonly (readonly [RegExp, string])[] = [
  [/nesting|maxDepth|maxAliases/, 'it is nested too deeply, or has too many aliases'],
  [/^unidentified alias/, 'a value that begins with * needs quotes, or the anchor of this alias is missing'],
  [/alias/, 'an alias is invalid here; a value that begins with * needs quotes'],
  [/anchor/, 'an anchor is invalid here; a value that begins with & needs quotes'],
  [
    /^unknown .*tag|tag handle|explicit tag|tag name|tag suffix/,
    'a value that begins with ! needs quotes, or its tag is not known',
  ],
  [/^duplicated mapping key/, 'a name is in the list twice'],
  [/single document/, 'there is more than one document in it'],
  [/tab characters/, 'it is indented with tabs'],
  [/indentation/, 'the indentation does not fit'],
  [/quoted scalar/, 'a quote is not closed'],
  [/flow collection/, 'a bracket is not closed, or a comma is missing'],
  [/escape sequence|hexadecimal/, 'a backslash in double quotes is not followed by a known character'],
  [/mapping key|mapping entry|key-value/, 'a name without its colon, or a colon without a space'],
  [/merge/, 'a << that is not followed by a mapping'],
];

function reasonOf(text: string): string {
  const known = mistakes.find(([pattern]) => pattern.test(text));
  return known === undefined ? notYaml : `${notYaml}: ${known[1]}`;
}

/** Only comments and empty lines, which the parser rejects. */
function isBlank(text: string): boolean {
  return text.split('\n').every((line) => /^\uFEFF?\s*(#.*)?$/.test(line));
}

/** The line, from 1, of the deepest part of `path` that the text contains. */
function lineInOfReadYaml(text: string, events: Event[], path: RawPath, yaml: Yaml): number | undefined {
  const offset = offsetOf(text, events, path, yaml);
  return offset === undefined ? undefined : text.slice(0, offset).split('\n').length;
}

function offsetOf(text: string, events: Event[], path: RawPath, yaml: Yaml): number | undefined {
  const { EVENT_ID } = yaml;
  let next = 1;
  let found: number | undefined;

  const skip = (): void => {
    const event = events[next++];
    if (event?.type !== EVENT_ID.MAPPING && event?.type !== EVENT_ID.SEQUENCE) return;
    while (next < events.length && events[next]?.type !== EVENT_ID.POP) skip();
    next++;
  };

  for (const part of path) {
    const container = events[next++];
    let isThere = false;
    for (let index = 0; next < events.length && events[next]?.type !== EVENT_ID.POP; index++) {
      const event = events[next];
      if (container?.type === EVENT_ID.SEQUENCE) {
        isThere = index === part;
        if (isThere) found = startOf(event) ?? found;
      } else if (container?.type === EVENT_ID.MAPPING) {
        isThere = event?.type === EVENT_ID.SCALAR && yaml.getScalarValue(text, event) === String(part);
        if (isThere) found = startOf(event) ?? found;
        skip();
      }
      if (isThere) break;
      skip();
    }
    if (!isThere) break;
  }
  return found;
}

function startOf(event: Event | undefined): number | undefined {
  if (event === undefined) return undefined;
  if ('valueStart' in event) return event.valueStart;
  return 'start' in event ? event.start : undefined;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Names the configuration file, so it is not an option. */
const fileVariable = 'SVC_CONFIG';

/** Reads the settings in environment variables. An empty variable counts as unset. */
function readEnvironment(env: Environment): Settings & { readonly warnings: readonly Problem[] } {
  const settings = new Map<string, Setting>();
  for (const option of options) {
    const variable = [variableOf(option.name), ...(option.aliases ?? [])].find((name) => isSet(env[name]));
    if (variable !== undefined) {
      settings.set(option.name, settingOf(option.name, variable, parseText(option, env[variable] ?? '')));
    }
  }
  const problems: Problem[] = [];
  const variable = variableOf(targetsName);
  if (isSet(env[variable])) {
    try {
      settings.set(targetsName, settingOf(targetsName, variable, JSON.parse(env[variable] ?? '')));
    } catch {
      const where = `environment variable ${variable}`;
      problems.push({
        name: targetsName,
        message: 'is not valid JSON',
        where,
        fix: 'Write the list of targets as JSON',
      });
    }
  }
  return { settings, problems, warnings: misspelled(env) };
}

/**
 * Reads variables that the application may use itself. They count if nothing else sets the option, and are checked only if the option
 * is in use.
 */
function readShared(env: Environment, settings: Settings['settings']) {
  return options.flatMap((option) => {
    const { name, shared } = option;
    const text = shared && env[shared.variable];
    if (shared === undefined || !isSet(text) || settings.has(name)) return [];
    if (settings.get(shared.switch)?.value !== true) return [];
    return [settingOf(name, shared.variable, parseText(option, text ?? ''))];
  });
}

/** Whether a variable of svc's own is set. KAFKA_BROKERS and MANAGEMENT_… may belong to other software. */
function asksForSvc(env: Environment): boolean {
  const own = options.map((option) => option.name).filter((name) => name.startsWith('svc.'));
  return [...own, targetsName].some((name) => isSet(env[variableOf(name)]));
}

function settingOf(name: string, variable: string, value: unknown) {
  const where = () => `environment variable ${variable}`;
  return { name, value, where, whereItem: where };
}

function isSet(text: string | undefined): boolean {
  return text !== undefined && text.trim() !== '';
}

/** A text that does not parse stays a string, which the check reports. */
function parseText(option: Option, text: string): unknown {
  // `echo secret > file` adds a line break. Other spaces may belong to a password.
  const trimmed = option.secret ? text.replace(/\r?\n$/, '') : text.trim();
  if (option.type === 'boolean') {
    if (/^(true|1)$/i.test(trimmed)) return true;
    if (/^(false|0)$/i.test(trimmed)) return false;
  }
  if ((option.type === 'integer' || option.type === 'number') && /^[+-]?[0-9]+(\.[0-9]+)?$/.test(trimmed)) {
    return Number(trimmed);
  }
  return trimmed;
}

/** Warns only about near misses, because other software may use similar names. */
function misspelled(env: Environment): Problem[] {
  const own = Object.keys(env).filter((name) => name.startsWith('SVC_') && name.length >= 8);
  if (own.length === 0) return [];
  const known = [...options.map((option) => variableOf(option.name)), variableOf(targetsName), fileVariable];
  const warnings: Problem[] = [];
  for (const name of own) {
    if (known.includes(name)) continue;
    const nearest = nearestName(name, known, 2);
    if (nearest === undefined) continue;
    warnings.push({ name, message: 'is not a known environment variable', fix: `Did you mean ${nearest}?` });
  }
  return warnings;
}
