import { realpathSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Command } from 'commander';
import { scriptsBelow, writeList } from '../capture/bundlers.ts';
import { inspectBundle, inspectStart, inspectTargets, type StartReport } from '../capture/inspect.ts';
import { formatReport, type TargetReport, writeMaps } from '../capture/report.ts';
import { findDeclared } from '../capture/source/declared.ts';
import { formatProblem, type Problem } from '../config/check/check.ts';
import type { Config } from '../config/config.ts';
import { loadConfig } from '../config/read/load.ts';
import { isFile, type Manifest, nearestManifest } from '../ground/files.ts';
import { clientOf } from '../ground/management.ts';
import { piiStrategies } from '../ground/pii-rule.ts';
import { unsupportedNode } from '../ground/version.ts';
import { printable, printableJson } from '../observe/logger.ts';
import {
  inspectManifest,
  inspectOutbox,
  inspectServices,
  type TablesReport,
} from '../start/commands/inspect.ts';
import { doubtsOf } from './doubts.ts';
import { formatTables, inClearText, sayUnguarded } from './outbox.ts';
import { isInTheWay } from './recovery.ts';
import { unjoinedIn } from './running.ts';
import { counted, does, program, settingsInCode, WrongUse, warnOnly } from './terminal.ts';

/** The inspected start and what it loads, as in `svc check --json`. */
interface StartCheck extends Partial<StartReport> {
  readonly command: string;
  /** Why the start was not inspected. */
  readonly problem?: string;
}

/**
 * Inspects the start given on the command line, or else the start script of package.json. `undefined`: there is no start.
 *
 * @throws WrongUse
 */
function checkStart(config: Config, given: readonly string[]): StartCheck | undefined {
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
function checkBundle(config: Config, given: readonly string[]): StartCheck | undefined {
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

function isStartWell(start: StartCheck | undefined): boolean {
  return start?.targets?.some(({ state }) => state === 'unloaded') !== true;
}

const stateLabels = { loaded: 'loaded', unloaded: 'UNLOADED', pending: 'pending' } as const;

/** Limit of the text output. The JSON lists all. */
const maxPlaces = 5;

function formatStart(
  { command, problem, targets = [], unknown = [] }: StartCheck,
  kind: 'start' | 'bundle' = 'start',
): string {
  if (problem !== undefined) return `start: ${printable(command)}: ${problem}\n`;
  if (targets.length === 0) return '';
  const count = targets.filter(({ state }) => state === 'loaded').length;
  const width = Math.max(...targets.map(({ id }) => id.length));
  const lines = targets.map(({ id, state, reason = '' }) =>
    `  ${stateLabels[state].padEnd(8)}  ${id.padEnd(Math.min(width, 80))}  ${reason}`.trimEnd(),
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
async function runManifest(options: ManifestOptions, paths: readonly string[]): Promise<number> {
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
function startWithSvc(manifest: Manifest | undefined): string {
  const [name] = [...(manifest?.scripts ?? [])].find(([, command]) => command.includes('svc/register')) ?? [];
  if (name !== undefined) return name === 'start' ? 'npm start' : `npm run ${name}`;
  return (manifest && scriptEntryOf(manifest)?.command) ?? `node ${preloadOption} <your file>`;
}

interface CheckOptions {
  readonly config?: string;
  readonly json?: true;
  readonly online?: true;
  /** Built files, and folders of them. */
  readonly bundle?: readonly string[];
}

/** `svc check`: inspects the targets without starting the application. With `--online` it also checks the services. */
async function runCheck(options: CheckOptions, command: readonly string[]): Promise<number> {
  const looksAtStart = options.bundle === undefined || command.length > 0;
  const application = inspectApplication(options.config, command, looksAtStart);
  if (typeof application === 'string') {
    process.stderr.write(`svc: ${application}\n`);
    if (!options.json) process.stdout.write(`next: ${program} init\n`);
    return 1;
  }
  const { config, ofConfig, problems, reports, refused, declared, start } = application;
  const remarks = application.remarks.map((each) => (typeof each === 'string' ? each : formatProblem(each)));
  const bundle = checkBundle(config, options.bundle ?? []);
  const isApplicationWell = application.isWell && isStartWell(bundle);
  const online = options.online ? () => checkOnline(config, ofConfig) : undefined;
  if (options.json) {
    const answer = await online?.();
    const isWell = isApplicationWell && answer?.ok !== false;
    const document = {
      ok: isWell,
      file: config.file,
      targets: [...reports, ...refused.map(({ id, reason }) => ({ id, state: 'failed', reason }))],
      declared,
      ...(start !== undefined && { start }),
      ...(bundle !== undefined && { bundle }),
      problems: problems.map(formatProblem),
      warnings: remarks,
      ...(answer !== undefined && { online: answer, findings: findingsOf(application, answer) }),
    };
    process.stdout.write(`${printableJson(document, 2)}\n`);
    return isWell ? 0 : 1;
  }
  if (config.file !== undefined) process.stdout.write(`configuration ${config.file}\n`);
  for (const remark of remarks) process.stdout.write(`warning: ${remark}\n`);
  for (const problem of problems) process.stdout.write(`error: ${formatProblem(problem)}\n`);
  for (const { id, reason } of refused) process.stdout.write(`error: target ${id}: ${reason}\n`);
  process.stdout.write(`${formatReport.inspection(reports)}\n${formatDeclared(declared)}`);
  if (start !== undefined) process.stdout.write(formatStart(start));
  if (bundle !== undefined) process.stdout.write(formatStart(bundle, 'bundle'));
  const answer = await online?.();
  if (answer !== undefined) process.stdout.write(formatOnline(answer));
  if (answer?.outbox !== undefined) sayUnguarded(answer.outbox.table, answer.outbox.guard);
  const again = `${program} check${options.online ? ' --online' : ''}`;
  const isWell = isApplicationWell && answer?.ok !== false;
  const asked = isStartWell(bundle) ? application : { ...application, start: bundle };
  const next = isWell ? nextStart(application, again) : `${remedyOf(asked)}, then run ${again} again`;
  process.stdout.write(`next: ${next}\n`);
  return isWell ? 0 : 1;
}

/** The next step if nothing is wrong: build, name a function, or start. */
function nextStart({ config, declared }: ApplicationCheck, again: string): string {
  const manifest = nearestManifest(config.baseDir);
  if (startOf(manifest)?.isUnbuilt) return `npm run build && ${again}`;
  if (config.targets.length === 0 && declared.length === 0)
    return `name a function in svc.targets, or let ${program} init --force do it`;
  return startWithSvc(manifest);
}

/** The first step to fix problems. The words refer to the lines above. */
function remedyOf({ problems, refused, reports, start }: ApplicationCheck): string {
  if (problems.length > 0 || refused.length > 0) return 'fix the error lines';
  if (reports.some(({ state }) => state === 'failed'))
    return 'correct module and function of the FAILED targets';
  if (!isStartWell(start)) return 'do what the UNLOADED lines say, build';
  return `fix the error lines (${program} doctor shows how)`;
}

type Declared = ReturnType<typeof findDeclared>;

function formatDeclared(declared: Declared['functions']): string {
  if (declared.length === 0) return '';
  const lines = declared.map(({ file, line, name, by }) => `  ${name}  ${by}  ${file}:${line}\n`);
  return `declared in code, found in the source: ${declared.length}\n${lines.join('')}`;
}

interface DoctorOptions {
  readonly config?: string;
  readonly json?: true;
}

const labels = { ok: 'ok', warning: 'WARNING', error: 'ERROR' } as const;

/** `svc doctor`: one list of all checks, each failure with its fix. Exit code 1: there is a failure. */
async function runDoctor(options: DoctorOptions, command: readonly string[]): Promise<number> {
  const application = inspectApplication(options.config, command);
  const findings =
    typeof application === 'string'
      ? noConfiguration(application)
      : findingsOf(application, await checkOnline(application.config, application.ofConfig));
  const count = findings.filter(({ state }) => state === 'error').length;
  if (options.json) process.stdout.write(`${printableJson({ ok: count === 0, findings }, 2)}\n`);
  else {
    process.stdout.write(findings.map(linesOf).join(''));
    process.stderr.write(
      `${count === 0 ? 'nothing is wrong' : `${count} of ${findings.length} ${count === 1 ? 'is' : 'are'} wrong`}\n`,
    );
    const again = `${program} doctor`;
    const remedy = `do what ${count === 1 ? 'its' : 'the first'} fix says, then run ${again} again`;
    let next = `${program} init`;
    if (typeof application !== 'string') {
      const start = nextStart(application, again);
      next = count === 0 ? start : remedy;
      const isTopicOnly = findings.every(({ state, area }) => state !== 'error' || area === 'topics');
      if (count > 0 && isTopicOnly)
        next = `create the topic, unless your broker does so with the first event, then run ${start}`;
    }
    process.stdout.write(`next: ${next}\n`);
  }
  return count === 0 ? 0 : 1;
}

function linesOf({ area, state, text, fix }: Finding): string {
  const line = `${labels[state].padEnd(7)}  ${area.padEnd(13)}  ${printable(text)}`;
  return fix === undefined ? `${line}\n` : `${line}\n${' '.repeat(9)}fix: ${printable(fix)}\n`;
}

function noConfiguration(text: string): Finding[] {
  const fix = 'write one: npx --no svc init';
  return [{ area: 'configuration', state: 'error', text: text.replace(` ${settingsInCode}`, ''), fix }];
}

const areas: readonly string[] = [
  ...['node', 'configuration', 'targets', 'start', 'broker', 'topics', 'rights', 'backup'],
  ...['tables', 'triggers', 'transactions', 'keys', 'registry', 'folders'],
];

/** One result of `svc doctor` and `svc check --online`. */
interface Finding {
  readonly area: string;
  readonly state: 'ok' | 'warning' | 'error';
  /** One line. */
  readonly text: string;
  /** What to do. Required unless the state is ok. */
  readonly fix?: string;
}

/** The default fix of each area. */
const fixes = {
  configuration: 'correct the configuration file; its JSON Schema helps your editor',
  targets: `correct module and function in the configuration, then: ${program} check`,
  start: `${writeMaps}, name the file that is loaded in module, or declare the function in code with publishEvent()`,
  broker: 'start the broker, or correct svc.broker.bootstrap-servers and its TLS and SASL settings',
  topics: 'create the topic, or correct its name in svc.broker.topic, dlq-topic or the target',
  rights: 'allow the user of svc.broker.sasl to describe and write its topics, and to use its group',
  backup: 'correct svc.broker.backup.s3-*, and allow its user to put and delete objects below the prefix',
  tables: `create or update the tables: ${program} outbox migrate, or ${program} outbox ddl for the owners of the database`,
  triggers: 'run the statement at a quiet time, as the owner of the table',
  transactions:
    'call the functions that its log names within a transaction, or set svc.outbox.on-no-transaction: error, so that such calls fail',
  keys: 'correct svc.pii.kms, or allow its user to use this key',
  registry: 'register the schema, or correct svc.serde.schema-registry-url',
  folders: 'allow the user of the process to write there, or name another folder',
} as const;

/** In the URL syntax of `pg` and `mysql2`. */
const encrypted = (dialect: string | null): string =>
  `add ${dialect === 'mysql' ? '?ssl={"rejectUnauthorized":true}' : '?sslmode=verify-full'} to svc.outbox.datasource.url, and check the connections of the application too`;

/** All results, in the order in which a start needs them. */
function findingsOf(application: ApplicationCheck, online: OnlineCheck): Finding[] {
  const all = [...ofApplication(application), ...ofBroker(online), ...ofServices(online)];
  // The sort is stable: within an area, the order stays.
  return all.sort((a, b) => areas.indexOf(a.area) - areas.indexOf(b.area));
}

const ok = (area: string, text: string): Finding => ({ area, state: 'ok', text });
const wrong = (area: keyof typeof fixes, text: string, fix: string = fixes[area]): Finding => ({
  ...{ area, state: 'error', text, fix },
});

function ofApplication({ config, problems, remarks, reports, refused, start }: ApplicationCheck): Finding[] {
  const found: Finding[] = [];
  const [ofNode] = problems.filter(({ name }) => name === 'svc');
  if (ofNode === undefined) found.push(ok('node', `Node ${process.versions.node}`));
  for (const problem of problems)
    found.push(ofProblem(problem, problem === ofNode ? 'node' : 'configuration'));
  if (problems.every((each) => each === ofNode))
    found.push(ok('configuration', config.file ?? 'environment variables'));
  for (const each of remarks)
    found.push(
      typeof each === 'string'
        ? { ...{ area: 'configuration', state: 'warning', text: each }, fix: fixes.configuration }
        : { ...ofProblem(each, 'configuration'), state: 'warning' },
    );
  for (const { id, reason } of refused) found.push(wrong('targets', `${id}: ${reason}`));
  for (const { id, state, reason = 'cannot be captured' } of reports)
    if (state === 'failed') found.push(wrong('targets', `${id}: ${reason}`));
  const patched = reports.filter(({ state }) => state !== 'failed').length;
  if (patched > 0 || reports.length === 0)
    found.push(
      ok('targets', `${patched} of ${counted(reports.length + refused.length, 'target')} can be captured`),
    );
  if (start?.problem !== undefined)
    found.push({
      ...{ area: 'start', state: 'warning', text: `${start.command}: ${start.problem}` },
      fix: fixes.start,
    });
  for (const { id, state, reason = '' } of start?.targets ?? [])
    if (state === 'unloaded') found.push(wrong('start', `${id}: ${reason}`));
    else found.push(ok('start', `${id}: ${state}`));
  return found;
}

function ofProblem(problem: Problem, area: string): Finding {
  const { fix = fixes.configuration, ...rest } = problem;
  return { area, state: 'error', text: formatProblem(rest), fix };
}

function ofBroker({ client, asked, problem, cluster, topics, group }: OnlineCheck): Finding[] {
  const found: Finding[] = [];
  const where = asked.join(', ');
  if (problem !== undefined) found.push(wrong('broker', problem));
  else if (cluster !== undefined)
    found.push(
      ok('broker', `${where} answers, cluster ${cluster.id}, ${counted(cluster.brokers, 'broker')}`),
    );
  else
    found.push(
      ok('broker', `nothing to check: svc.broker.client is ${client}${where === '' ? '' : `, ${where}`}`),
    );
  for (const { topic, partitions, mayWrite, problem: why } of topics) {
    if (why !== undefined) found.push(wrong(mayWrite === false ? 'rights' : 'topics', why));
    else {
      found.push(ok('topics', `${topic}: ${counted(partitions ?? 0, 'partition')}`));
      found.push(ok('rights', `${topic}: ${rightTo('write', mayWrite)}`));
    }
  }
  if (group?.problem !== undefined) found.push(wrong('rights', group.problem));
  else if (group !== undefined)
    found.push(ok('rights', `group ${group.name}: ${rightTo('use it', group.mayUse)}`));
  return found;
}

function ofServices({ backup, serde, outbox, unjoined = [], keys, folders = [] }: OnlineCheck): Finding[] {
  const found: Finding[] = [];
  if (backup?.problem !== undefined) found.push(wrong('backup', backup.problem));
  else if (backup !== undefined) found.push(ok('backup', `bucket ${backup.bucket} takes events`));
  if (outbox?.problem !== undefined) found.push(wrong('tables', outbox.problem));
  else if (outbox !== undefined)
    found.push(
      ok(
        'tables',
        outbox.pending === undefined ? `${outbox.table}` : `${outbox.table}: ${outbox.pending} pending`,
      ),
    );
  if (outbox?.warning !== undefined)
    found.push({ ...{ area: 'tables', state: 'warning', text: outbox.warning }, fix: fixes.tables });
  if (outbox?.inClearTo !== undefined) {
    const text = inClearText(outbox.inClearTo);
    found.push({ ...{ area: 'tables', state: 'warning', text }, fix: encrypted(outbox.dialect) });
  }
  if (outbox?.guard !== undefined) {
    const text = `${outbox.table} accepts rows that no relay finds, which svc never writes`;
    found.push({
      ...{ area: 'triggers', state: 'warning', text },
      fix: `${fixes.triggers}: ${outbox.guard}`,
    });
  } else if (outbox?.pending !== undefined) found.push(ok('triggers', `${outbox.table} is guarded`));
  for (const each of unjoined)
    found.push({ area: 'transactions', state: 'warning', text: unjoinedText(each), fix: fixes.transactions });
  for (const { id, problem } of keys?.keys ?? [])
    found.push(problem === undefined ? ok('keys', `${id}: answers`) : wrong('keys', `${id}: ${problem}`));
  for (const { eventType, state, problem } of serde?.schemas ?? [])
    found.push(
      state === undefined
        ? wrong('registry', problem ?? `no schema for ${eventType}`)
        : ok('registry', `schema of ${eventType} ${stateLines[state]}`),
    );
  for (const { name, folder, problem } of folders)
    found.push(
      problem === undefined ? ok('folders', `${name}: ${folder}`) : wrong('folders', `${name}: ${problem}`),
    );
  return found;
}

/** The checks that need no service. */
interface ApplicationCheck {
  readonly config: Config;
  /** Of the configuration alone. */
  readonly ofConfig: readonly Problem[];
  /** Also those of Node and of rules in code. */
  readonly problems: readonly Problem[];
  /** Warnings. Some are only a line. */
  readonly remarks: readonly (Problem | string)[];
  readonly reports: readonly TargetReport[];
  readonly refused: readonly { readonly id: string; readonly reason: string }[];
  readonly declared: Declared['functions'];
  readonly start: StartCheck | undefined;
  readonly isWell: boolean;
}

/**
 * Returns a line if there is no configuration.
 *
 * @throws WrongUse
 */
function inspectApplication(
  file: string | undefined,
  command: readonly string[],
  looksAtStart = true,
): ApplicationCheck | string {
  const { config, problems: ofConfig, warnings, targetProblems, notFound } = loadConfig({ file });
  if (notFound !== undefined) return `${notFound} ${settingsInCode}`;
  const seen = looksAtStart ? checkStart(config, command) : undefined;
  const reports = inspectTargets(config, (specifier) => seen?.packages?.get(specifier));
  const failed = new Set(reports.filter(({ state }) => state === 'failed').map(({ id }) => id));
  const start = withoutKnown(seen, failed);
  const { functions: declared, rules, events } = findDeclared(config.baseDir);
  const problems = [...problemsOfNode(), ...ofConfig, ...problemsOfRules(rules, file, ofConfig)];
  const refused = targetProblems.map(({ id, problems: why }) => ({
    id,
    reason: why.map(formatProblem).join('; '),
  }));
  const isWell =
    reports.every(({ state }) => state !== 'failed') &&
    refused.length === 0 &&
    problems.length === 0 &&
    isStartWell(start);
  const doubts = doubtsOf(config, events);
  const remarks = [...warnings, ...doubts, ...inspectManifest(config)];
  return { config, ofConfig, problems, remarks, reports, refused, declared, start, isWell };
}

/** A failed target is reported once. */
function withoutKnown(start: StartCheck | undefined, failed: ReadonlySet<string>): StartCheck | undefined {
  if (start?.targets === undefined) return start;
  const { packages: _, ...shown } = start;
  const targets = start.targets.filter(({ id, state }) => state === 'loaded' || !failed.has(id));
  return { ...shown, targets };
}

/** With an unsupported Node, `svc/register` captures nothing. */
function problemsOfNode(): Problem[] {
  const message = unsupportedNode(process.versions.node);
  if (message === undefined) return [];
  return [
    {
      name: 'svc',
      message: `${message}: nothing is captured here`,
      fix: 'Run the application with a newer Node',
    },
  ];
}

/** Keys or a salt that rules in code need and the configuration lacks. Otherwise the first matching event would be refused. */
function problemsOfRules(
  found: Declared['rules'],
  file: string | undefined,
  known: readonly Problem[],
): Problem[] {
  const rules = found.flatMap(({ strategy, keyId }) => {
    const named = piiStrategies.find((each) => each === strategy);
    return named === undefined ? [] : [{ strategy: named, keyId }];
  });
  if (rules.length === 0) return [];
  const where = [...new Set(found.map((rule) => `${rule.file}:${rule.line}`))].slice(0, 3).join(', ');
  return loadConfig({ file, rules })
    .problems.filter(
      ({ name, message }) => !known.some((one) => one.name === name && one.message === message),
    )
    .map((problem) => ({ ...problem, where }));
}

type Services = Awaited<ReturnType<typeof inspectServices>>;

/** The document of `svc check --online --json`. */
interface OnlineCheck {
  readonly ok: boolean;
  readonly client: string;
  /** `host:port`, or the folder of topic files. Empty for memory and for brokers that the application has registered. */
  readonly asked: readonly string[];
  /** Why the broker could not be checked. */
  readonly problem?: string;
  readonly cluster?: { readonly id: string | null; readonly brokers: number };
  readonly topics: readonly OnlineTopic[];
  readonly group?: { readonly name: string; readonly mayUse: boolean | null; readonly problem?: string };
  /** Present with `svc.broker.backup.s3-enabled`. */
  readonly backup?: Services['backup'];
  /** Present with `svc.serde.type: AVRO`. */
  readonly serde?: Services['serde'];
  /** Present with `svc.outbox.enabled`. */
  readonly outbox?: TablesReport;
  /** Processes started in this folder, with the number of events that each has stored outside a transaction. Without those at 0. */
  readonly unjoined?: readonly { readonly pid: number; readonly count: number }[];
  /** Present with `svc.pii.kms.enabled`. */
  readonly keys?: Services['keys'];
  /** Folders that a process writes to. */
  readonly folders?: Services['folders'];
}

interface OnlineTopic {
  readonly topic: string;
  readonly partitions: number | null;
  /** `null`: unknown. */
  readonly mayWrite: boolean | null;
  readonly problem?: string;
}

/** Checks the services of the configuration: broker, backup bucket, schema registry, key service and outbox database. */
async function checkOnline(config: Config, problems: readonly Problem[]): Promise<OnlineCheck> {
  const { client } = config.broker;
  const scene = { client, asked: clientOf(client).addresses(config.broker) };
  const [wrong] = problems.filter(isInTheWay);
  if (wrong !== undefined)
    return { ok: false, ...scene, problem: `not asked: ${formatProblem(wrong)}`, topics: [] };
  warnOnly(config);
  const [services, outbox, unjoined] = await Promise.all([
    inspectServices(config),
    tablesOf(config),
    lookAtProcesses(config),
  ]);
  const { backup, serde, keys, folders } = services;
  const broker = documentOf(services.broker);
  const areSchemasRight = serde?.schemas.every(({ problem }) => problem === undefined) ?? true;
  const others = [backup, outbox, ...(keys?.keys ?? []), ...folders];
  const ok = broker.ok && areSchemasRight && others.every((each) => each?.problem === undefined);
  return {
    ...scene,
    ...broker,
    ok,
    ...(backup && { backup }),
    ...(serde && { serde }),
    ...(outbox && { outbox }),
    ...(unjoined.length > 0 && { unjoined }),
    ...(keys && { keys }),
    folders,
  };
}

async function lookAtProcesses(config: Config): Promise<{ pid: number; count: number }[]> {
  if (!config.outbox.enabled || config.outbox.onNoTransaction !== 'autocommit') return [];
  const { token, actionToken } = config.management.server;
  const found = await unjoinedIn(process.cwd(), token ?? actionToken);
  return found.filter(({ count }) => count > 0);
}

function unjoinedText({ pid, count }: { readonly pid: number; readonly count: number }): string {
  return `process ${pid} has stored ${counted(count, 'event')} outside any transaction, not atomically with the writes of the calls (svc_outbox_unjoined_total)`;
}

/** Ignores missing tables that the process creates at its start. */
async function tablesOf(config: Config): Promise<TablesReport | undefined> {
  const { enabled, datasource, initializeSchema } = config.outbox;
  if (!enabled || datasource.url === undefined) return undefined;
  const report = await inspectOutbox(config);
  const makesTables =
    initializeSchema === 'always' || (initializeSchema === 'embedded' && report.dialect === 'sqlite');
  if (report.code !== 'SVC_OUTBOX_TABLE_MISSING' || !makesTables) return report;
  const { dialect, table } = report;
  return { dialect, table, warning: `no table ${table} yet: the process makes it when it starts` };
}

function documentOf(broker: Services['broker']): Omit<OnlineCheck, 'client' | 'asked'> {
  if ('problem' in broker) return { ok: false, problem: broker.problem, topics: [] };
  const { cluster, topics, group, groupName } = broker;
  const all = group === undefined ? topics : [...topics, group];
  return {
    ok: all.every(({ problem }) => problem === undefined),
    ...(cluster && { cluster: { id: cluster.clusterId, brokers: cluster.nodeCount } }),
    topics: topics.map(({ topic, partitionCount, isAllowed, problem }) => ({
      ...{ topic, partitions: partitionCount ?? null, mayWrite: isAllowed ?? null },
      ...(problem !== undefined && { problem }),
    })),
    ...(group !== undefined &&
      groupName !== undefined && {
        group: {
          ...{ name: groupName, mayUse: group.isAllowed ?? null },
          ...(group.problem !== undefined && { problem: group.problem }),
        },
      }),
  };
}

/** One line per checked item. */
function formatOnline({
  client,
  asked,
  problem,
  cluster,
  topics,
  group,
  backup,
  serde,
  outbox,
  unjoined = [],
  keys,
  folders = [],
}: OnlineCheck): string {
  const lines: string[] = [];
  const where = asked.join(', ');
  if (problem !== undefined) lines.push(`error: broker: ${problem}`);
  else if (clientOf(client).staysInMemory)
    lines.push(`broker: nothing to check, events stay in memory (svc.broker.client: ${client})`);
  else if (asked.length === 0)
    lines.push(`broker: nothing to check, svc does not know what "${client}" can do`);
  else if (clientOf(client).isFiles)
    lines.push(`broker: nothing to check; the topic files in ${where} can be written`);
  else
    lines.push(
      `broker: ${where} answers, cluster ${cluster?.id}, ${counted(cluster?.brokers ?? 0, 'broker')}`,
    );
  for (const each of topics)
    lines.push(
      each.problem === undefined
        ? `  topic ${each.topic}: ${counted(each.partitions ?? 0, 'partition')}, ${rightTo('write', each.mayWrite)}`
        : `  error: ${each.problem}`,
    );
  if (group !== undefined)
    lines.push(
      group.problem === undefined
        ? `  group ${group.name} for worker ids: ${rightTo('use it', group.mayUse)}`
        : `  error: ${group.problem}`,
    );
  if (backup !== undefined) lines.push(bucketLine(backup));
  if (serde !== undefined) lines.push(...schemaLines(serde));
  if (keys !== undefined) lines.push(...keyLines(keys));
  for (const { name, problem: why } of folders) if (why !== undefined) lines.push(`error: ${name}: ${why}`);
  for (const each of unjoined) lines.push(`warning: ${unjoinedText(each)}`);
  const tables = outbox === undefined ? '' : formatTables(outbox);
  return `${lines.map(printable).join('\n')}\n${tables}`;
}

const stateLines = {
  registered: 'is registered',
  compatible: 'is registered, or would be a compatible version',
  new: 'would be registered at the first event',
} as const;

function schemaLines({ registry, schemas }: NonNullable<Services['serde']>): string[] {
  const lines = schemas.map(({ eventType, subject, state, problem }) =>
    state === undefined
      ? `  error: ${problem}`
      : `  schema of ${eventType}, subject ${subject}: ${stateLines[state]}`,
  );
  return [`schema registry: ${registry}`, ...lines];
}

function keyLines({ provider, keys }: NonNullable<Services['keys']>): string[] {
  const lines = keys.map(({ id, problem }) =>
    problem === undefined ? `  key ${id}: answers` : `  error: key ${id}: ${problem}`,
  );
  return [`keys: ${provider}`, ...lines];
}

function bucketLine({ bucket, left, problem }: NonNullable<Services['backup']>): string {
  if (problem !== undefined) return `error: backup: ${problem}`;
  const rest = left === undefined ? '' : `; the probe ${left} stays there, because svc may not delete it`;
  return `backup: bucket ${bucket} takes events${rest}`;
}

function rightTo(what: string, isAllowed: boolean | null): string {
  if (isAllowed === null)
    return `svc could not check whether it may ${what}, because these brokers do not report it`;
  return isAllowed ? `svc may ${what}` : `svc may not ${what}`;
}

export function addCheck(svc: Command): void {
  const check = svc
    .command('check')
    .summary('check the targets; --online: also the broker and other services')
    .description('Reports which publish targets of svc.config.* svc finds.')
    .argument('[command...]', 'after --: the start command of the application')
    .usage('[options] [-- node <file>]')
    .option(
      '--online',
      'also checks the permissions on broker, bucket, schema registry and outbox database; writes no event',
    )
    .option(
      '--bundle <paths...>',
      'check that the source maps of these built files or folders lead to the targets',
    )
    .addHelpText(
      'after',
      `
Put the start command of the application after -- (default: scripts.start of
package.json). svc follows its imports. Exit 1 means that it loads a file
compiled from the one that a target names.`,
    );
  does(check, (options, ...command) => runCheck(options, command));
  const doctor = svc
    .command('doctor')
    .summary('find what is wrong, from Node to the broker, and how to fix it')
    .description(
      'Checks everything that svc needs, from Node to the broker, and names a fix for each failure.',
    )
    .argument('[command...]', 'after --: the start command of the application')
    .usage('[options] [-- node <file>]');
  does<DoctorOptions>(doctor, (options, ...command) => runDoctor(options, command));
  const manifest = svc
    .command('manifest')
    .summary('list where the targets are, so that a start parses nothing')
    .description(
      'Writes svc.manifest.json beside the configuration, with the place of each target\nin the built files. Run it after each build, and ship it with the configuration.',
    )
    .argument('[paths...]', 'built files, or folders of them (dist, .next/server)');
  does(manifest, (options, ...paths) => runManifest(options, paths));
}
