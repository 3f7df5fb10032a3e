import { realpathSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Config } from '../config/config.ts';
import { loadConfig } from '../config/read/load.ts';
import { isFile, type Manifest, nearestManifest } from '../ground/files.ts';
import { printable, printableJson } from '../observe/logger.ts';
import { inspectBundle, inspectStart, type StartReport } from '../start/commands/inspect-targets.ts';
import { scriptsBelow, writeList } from '../start/commands/write-list.ts';
import { program, settingsInCode, WrongUse } from './terminal.ts';

/** The inspected start and what it loads, as in `svc check --json`. */
export interface StartCheck extends Partial<StartReport> {
  readonly command: string;
  /** Why the start was not inspected. */
  readonly problem?: string;
}

/**
 * Inspects the start given on the command line, or else the start script of package.json. `undefined`: there is no start.
 *
 * @throws WrongUse
 */
export function checkStart(config: Config, given: readonly string[]): StartCheck | undefined {
  if (given.length > 0) {
    const command = given.join(' ');
    const entries = entriesOf(given, process.cwd());
    if (entries === undefined)
      throw new WrongUse(`after --, give a start of Node with an existing file, not ${command}`);
    return { command, ...inspectStart(config, entries) };
  }
  const start = startOf(nearestManifest(config.baseDir));
  if (start === undefined || config.targets.length === 0) return undefined;
  const { command, entries, isUnbuilt } = start;
  if (/(^|\s)next (start|dev)\b/.test(command))
    return { command, unknown: [], targets: bundledByNext(config) };
  if (entries !== undefined) return { command, ...inspectStart(config, entries) };
  if (isUnbuilt) return { command, problem: 'its file does not exist: build the application first' };
  return { command, problem: `not a start of Node with an existing file: ${howTo}` };
}

interface Start {
  readonly command: string;
  /** `undefined`: the command does not start Node, or its file does not exist. */
  readonly entries: readonly string[] | undefined;
  /** The command starts Node with a missing file, and there is a build script. */
  readonly isUnbuilt: boolean;
}

/** Frameworks use `start` for their own command and `start:prod` for production. */
const startScripts = ['start', 'start:prod', 'start:svc'];

/** The start in package.json: the first start script that runs Node, or else `start`. */
export function startOf(manifest: Manifest | undefined): Start | undefined {
  const commands = startScripts.flatMap((name) => manifest?.scripts.get(name)?.trim() ?? []);
  const command = commands.find((each) => runsNode.test(each)) ?? manifest?.scripts.get('start');
  if (manifest === undefined || command === undefined) return undefined;
  const entries = entriesOf(command.split(/\s+/), manifest.folder);
  const isUnbuilt = entries === undefined && runsNode.test(command) && manifest.scripts.has('build');
  return { command, entries, isUnbuilt };
}

/** `node dist/main`, with variables before it and no further command. */
const runsNode = /^(?:\w+=\S+\s+)*(?:node|tsx)\s[^;&|]*$/;

/** The bundle has source maps once it is built. Packages are not bundled. */
function bundledByNext(config: Config): StartReport['targets'] {
  const { targets, baseDir } = config;
  if (isFile(join(baseDir, '.next/BUILD_ID')))
    return inspectBundle(config, scriptsBelow(join(baseDir, '.next/server')));
  return targets
    .filter(({ module }) => module.startsWith('.'))
    .map(({ id }) => ({
      ...{ id, state: 'pending' },
      reason: 'Next.js bundles it: run this again after next build',
    }));
}

/** Finds the targets in the built files of `--bundle`, by their source maps. */
export function checkBundle(config: Config, given: readonly string[]): StartCheck | undefined {
  if (given.length === 0) return undefined;
  return { command: given.join(' '), unknown: [], targets: inspectBundle(config, builtFiles(given)) };
}

/**
 * Files, and the files in folders.
 *
 * @throws WrongUse
 */
function builtFiles(given: readonly string[]): string[] {
  return given.flatMap((each) => {
    const path = resolve(each);
    const found = isFile(path) ? [realpathSync(path)] : scriptsBelow(path);
    if (found.length === 0) throw new WrongUse(`there is no built JavaScript in ${each}`);
    return found;
  });
}

const howTo = `${program} check -- node dist/main.js shows what such a start loads`;

/** Node options whose value is a separate word, which may be a file of the application. */
const withValue = new Set([
  ...['-r', '--require', '--import', '--loader', '--experimental-loader', '-C', '--conditions'],
  ...['--env-file', '--env-file-if-exists', '--title'],
]);
const preload = /^(?:-r|--require|--import|--loader|--experimental-loader)$/;

/** The files that `node … file` loads first, preloads included. `undefined`: any other command. */
function entriesOf(words: readonly string[], cwd: string): string[] | undefined {
  const start = words.findIndex((word) => !/^\w+=/.test(word));
  if (!/^(.*[\\/])?(node|tsx|ts-node)(\.exe)?$/.test(words[start] ?? '')) return undefined;
  if (words.some((word) => /[;&|<>`$]/.test(word))) return undefined;
  const entries: string[] = [];
  for (let at = start + 1; at < words.length; at++) {
    const [, name = '', value] = /^(-[^=]*)(?:=(.*))?$/.exec(words[at] ?? '') ?? [];
    if (name === '') {
      const entry = entryAt(resolve(cwd, words[at] ?? ''));
      return entry === undefined ? undefined : [...entries, entry];
    }
    const argument = value ?? (withValue.has(name) ? words[++at] : undefined);
    if (argument === undefined || !preload.test(name) || !argument.startsWith('.')) continue;
    const file = entryAt(resolve(cwd, argument));
    if (file !== undefined) entries.push(file);
  }
  return undefined;
}

/** Resolves like Node: `dist/main.js`, `dist/main` and `.`. */
function entryAt(path: string): string | undefined {
  const main = nearestManifest(path)?.main;
  const tried = [
    path,
    `${path}.js`,
    ...(main === undefined ? [] : [join(path, main)]),
    join(path, 'index.js'),
  ];
  return tried.find(isFile);
}

export function isStartWell(start: StartCheck | undefined): boolean {
  return start?.targets?.some(({ state }) => state === 'unloaded') !== true;
}

const labels = { loaded: 'loaded', unloaded: 'UNLOADED', pending: 'pending' } as const;

/** Limit of the text output. The JSON lists all. */
const maxPlaces = 5;

export function formatStart(
  { command, problem, targets = [], unknown = [] }: StartCheck,
  kind: 'start' | 'bundle' = 'start',
): string {
  if (problem !== undefined) return `start: ${printable(command)}: ${problem}\n`;
  if (targets.length === 0) return '';
  const count = targets.filter(({ state }) => state === 'loaded').length;
  const width = Math.max(...targets.map(({ id }) => id.length));
  const lines = targets.map(({ id, state, reason = '' }) =>
    `  ${labels[state].padEnd(8)}  ${id.padEnd(Math.min(width, 80))}  ${reason}`.trimEnd(),
  );
  if (count < targets.length && unknown.length > 0) {
    const more = unknown.length > maxPlaces ? ` and ${unknown.length - maxPlaces} more` : '';
    lines.push(
      `  not followed: the name at ${unknown.slice(0, maxPlaces).join(', ')}${more} is known only at runtime`,
    );
  }
  const head =
    kind === 'start'
      ? `start: ${command} loads ${count} of ${targets.length} targets in files, by its imports`
      : `bundle: ${command} has ${count} of ${targets.length} targets in files, by source maps`;
  return `${[head, ...lines].map(printable).join('\n')}\n`;
}

interface ManifestOptions {
  readonly config?: string;
  readonly json?: true;
}

/** `svc manifest`: writes the list of places that a production start reads instead of source maps and module texts. */
export async function runManifest(options: ManifestOptions, paths: readonly string[]): Promise<number> {
  const { config, notFound } = loadConfig({ file: options.config });
  if (notFound !== undefined) {
    process.stderr.write(`svc: ${notFound} ${settingsInCode}\n`);
    return 1;
  }
  // A path without JavaScript is a usage error.
  builtFiles(paths);
  const { file, targets } = writeList(
    config,
    paths.map((each) => resolve(each)),
  );
  const isWell = targets.every(({ files }) => files.length > 0);
  if (options.json) {
    process.stdout.write(`${printableJson({ ok: isWell, file, targets }, 2)}\n`);
    return isWell ? 0 : 1;
  }
  const found = targets.filter(({ files }) => files.length > 0).length;
  const lines = targets.map(({ id, files, reason }) =>
    files.length > 0 ? `  listed     ${id}  ${files.join(', ')}` : `  NOT FOUND  ${id}  ${reason}`,
  );
  const head = `${file}: ${found} of ${targets.length} targets`;
  process.stdout.write(`${[head, ...lines].map(printable).join('\n')}\n`);
  return isWell ? 0 : 1;
}

export interface ScriptEntry {
  readonly name: string;
  readonly command: string;
}

/** A separate script, so that the application's start stays unchanged. */
const scriptName = 'start:svc';

const preloadOption = '--import svc/register';

/** `undefined`: the script exists, or the start of the application is unknown. */
export function scriptEntryOf(manifest: Manifest): ScriptEntry | undefined {
  const { scripts, folder, main } = manifest;
  if ([...scripts.values()].some((command) => command.includes('svc/register'))) return undefined;
  const start = startOf(manifest)?.command;
  if (start !== undefined) {
    const command = start.replace(/^((?:\w+=\S+\s+)*(?:node|tsx))(?=\s)/, `$1 ${preloadOption}`);
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
  return file === undefined ? undefined : { name: scriptName, command: `node ${preloadOption} ${file}` };
}

/** The command that starts the application with svc: an existing script, or the one that `svc init` would add. */
export function startWithSvc(manifest: Manifest | undefined): string {
  const [name] = [...(manifest?.scripts ?? [])].find(([, command]) => command.includes('svc/register')) ?? [];
  if (name !== undefined) return name === 'start' ? 'npm start' : `npm run ${name}`;
  return (manifest && scriptEntryOf(manifest)?.command) ?? `node ${preloadOption} <your file>`;
}
