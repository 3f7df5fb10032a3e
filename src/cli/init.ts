import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import type { Command } from 'commander';
import type { Node, Program } from 'oxc-parser';
import { followImports, inspectTargets } from '../capture/inspect.ts';
import { subjectOf } from '../capture/report.ts';
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
import { formatProblem } from '../config/check/check.ts';
import { fileNames, loadConfig } from '../config/read/load.ts';
import { nextTurn } from '../ground/builtins.ts';
import { isFile, type Manifest, nearestManifest } from '../ground/files.ts';
import { printable, printableJson } from '../observe/logger.ts';
import { annotationOf, importedFrom, isAboutSame, type OwnSource, type Source, Sources } from './calls.ts';
import { type ScriptEntry, scriptEntryOf, startOf } from './check.ts';
import { repeated } from './recovery.ts';
import { does, onStopSignal, program, WrongUse } from './terminal.ts';

interface InitOptions {
  readonly json?: true;
  readonly target?: readonly string[];
  readonly broker?: string;
  readonly topic?: string;
  readonly yes?: true;
  readonly force?: true;
  readonly dryRun?: true;
  /** `false`: package.json stays as it is. */
  readonly script: boolean;
}

const fileName = 'svc.config.yaml';
const unchanged = 'stopped on request: nothing was written';
const topicPattern = /^[A-Za-z0-9._-]{1,249}$/;

/**
 * `svc init`: writes the first configuration. Exit codes: 0 written, 1 a configuration exists, or it was stopped.
 *
 * @throws WrongUse
 */
async function runInit(options: InitOptions): Promise<number> {
  let isStopped = false;
  const forget = onStopSignal(() => {
    isStopped = true;
  });
  try {
    const manifest = nearestManifest(process.cwd());
    if (manifest === undefined)
      throw new WrongUse('no package.json here or above: run it in the folder of an application');
    const there = existing(manifest.folder, options);
    if (there !== undefined) {
      process.stderr.write(`svc: ${there}\n`);
      return 1;
    }
    const answers = await answersOf(options, manifest);
    const script = answers.withScript ? scriptEntryOf(manifest) : undefined;
    const text = configText(answers, schemaPath(manifest.folder));
    // A signal that came during the synchronous reads arrives now.
    await nextTurn();
    if (isStopped) throw new Cancelled();
    write(manifest.folder, text, script, options.dryRun === true);
    report(options, manifest, answers, text, script);
    return 0;
  } catch (error) {
    if (!(error instanceof Cancelled)) throw error;
    process.stderr.write(`svc: ${unchanged}\n`);
    return 1;
  } finally {
    forget();
  }
}

/** Why nothing is written. With a second file, svc would read only one of the two. */
function existing(folder: string, { force, dryRun }: InitOptions): string | undefined {
  const found = fileNames.filter((name) => existsSync(join(folder, name)));
  const other = found.find((name) => name !== fileName);
  if (dryRun || found.length === 0) return undefined;
  if (other !== undefined)
    return `${join(folder, other)} is the configuration here already: nothing was written`;
  return force
    ? undefined
    : `${join(folder, fileName)} is there already: nothing was written; --force replaces it`;
}

async function answersOf(options: InitOptions, manifest: Manifest): Promise<Answered> {
  const { target: named = [], yes } = options;
  const topic = options.topic ?? `${nameOf(manifest)}.events.v1`;
  const brokers = listOf(options.broker);
  const wrong = problemOf(options.broker ?? '', topic);
  if (wrong !== undefined) throw new WrongUse(wrong);
  const script = options.script ? scriptEntryOf(manifest) : undefined;
  const known = { brokers, topic, withScript: script !== undefined };
  if (named.length > 0)
    return { ...known, targets: named.map((text) => namedTarget(text, manifest.folder)), others: [] };
  const ofStart = findCommands(manifest.folder, startOf(manifest)?.entries);
  // A start may load files by names that are known only at runtime.
  const search = ofStart.candidates.length > 0 ? ofStart : findCommands(manifest.folder, undefined);
  const { candidates } = search;
  if (candidates.length === 0) throw new WrongUse(nothingFound(search));
  if (yes) return { ...known, ...oneOfEach(candidates) };
  // A terminal without a width is not read by a person.
  if (process.stdin.isTTY && process.stderr.isTTY && process.stderr.columns > 0)
    return ask({ candidates, brokers, topic, script, problemOf });
  throw new WrongUse(
    `no terminal to ask on: give --yes for what was found, or name each: ${candidates
      .filter(({ leaveOut }) => leaveOut === undefined)
      .slice(0, maxNamed)
      .map(({ module, path, eventType }) => `--target '${module}#${path}=${eventType}'`)
      .join(' ')}`,
  );
}

const maxNamed = 5;

function nothingFound({ functionCount }: Search): string {
  return `none of ${functionCount} functions looks like a command (create…, update…, cancel…, pay…): name one, as in --target ./src/orders.ts#createOrder=ORDER_CREATED. For a function without a name, use publishEvent() in code`;
}

function problemOf(brokers: string, topic: string): string | undefined {
  const wrong = listOf(brokers).find((each) => !/^(?:\[[\da-f:]+\]|[\w.-]+):\d{1,5}$/i.test(each));
  if (wrong !== undefined) return `brokers are host:port, separated by commas: not ${printable(wrong)}`;
  return topicPattern.test(topic.trim())
    ? undefined
    : 'a topic has letters, digits, ".", "_" and "-", 249 at most';
}

/** The package name without its scope. Characters that topics do not allow become dashes. */
function nameOf({ name = 'app' }: Manifest): string {
  return name.replace(/^@[^/]*\//, '').replace(/[^\w.-]+/g, '-') || 'app';
}

/** Writes a trial file first, so that an invalid configuration is not left behind. It is checked like `svc check`. */
function write(folder: string, text: string, script: ScriptEntry | undefined, isDry: boolean): void {
  const trial = join(folder, `.svc-init-${process.pid}.yaml`);
  const manifestText = script && withScript(folder, script);
  writeFileSync(trial, text, { flag: 'wx' });
  try {
    const { config, problems, targetProblems } = loadConfig({ file: trial, env: {} });
    const failed = [
      ...problems.map(formatProblem),
      ...targetProblems.flatMap(({ problems: why }) => why.map(formatProblem)),
      ...inspectTargets(config).flatMap(({ id, state, reason }) =>
        state === 'failed' ? `${id}: ${reason}` : [],
      ),
    ];
    if (failed.length > 0) throw new WrongUse(`nothing was written: ${failed.join('; ')}`);
    if (isDry) return;
    renameSync(trial, join(folder, fileName));
  } finally {
    rmSync(trial, { force: true });
  }
  if (manifestText !== undefined) writeFileSync(join(folder, 'package.json'), manifestText);
}

function report(
  { json, dryRun, script: wantsScript }: InitOptions,
  manifest: Manifest,
  { targets, others, brokers, topic }: Answered,
  text: string,
  script: ScriptEntry | undefined,
): void {
  const file = join(manifest.folder, fileName);
  if (json) {
    const shown = ({ module, path, eventType }: NamedTarget) => ({ module, function: path, eventType });
    const document = {
      ok: true,
      dryRun: dryRun === true,
      file,
      script: script ?? null,
      brokers,
      topic,
      targets: targets.map((each) => ({
        ...shown(each),
        ...{ payload: each.payload ?? null, key: each.key ?? null },
      })),
      leftOut: others.map((each) => ({ ...shown(each), reason: each.leaveOut })),
    };
    process.stdout.write(`${printableJson(document, 2)}\n`);
    return;
  }
  if (dryRun) process.stdout.write(text);
  const shown = relative(process.cwd(), file);
  const count = `${targets.length} ${targets.length === 1 ? 'target' : 'targets'}`;
  const events = `topic ${topic}${brokers.length === 0 ? ', in files below ./svc-topics' : ''}`;
  const lacksMaps = buildsWithoutMaps(manifest, targets);
  const isBuilt = manifest.scripts.has('build') && (lacksMaps || startOf(manifest)?.isUnbuilt === true);
  const maps = lacksMaps ? 'set "sourceMap": true in tsconfig.json, then run ' : '';
  const next = `${maps}${isBuilt ? 'npm run build && ' : ''}${program} check`;
  const lines = [
    dryRun
      ? `${shown} would have ${count}: nothing was written`
      : `${shown}: ${count}, events go to ${events}`,
    ...leftOutLines(targets, others),
    ...(dryRun || script === undefined ? [] : [`package.json: script ${script.name}`]),
    ...(dryRun || !wantsScript || script !== undefined ? [] : ['package.json stays as it is']),
    ...(dryRun ? [] : [`next: ${next}`]),
  ];
  process.stderr.write(`${lines.map(printable).join('\n')}\n`);
}

/** The start runs files built by tsc without source maps, so svc would not find the functions. */
function buildsWithoutMaps(manifest: Manifest, targets: readonly NamedTarget[]): boolean {
  const file = join(manifest.folder, 'tsconfig.json');
  const command = startOf(manifest)?.command ?? 'tsx';
  if (/\btsx\b|\.[cm]?tsx?$/.test(command) || !existsSync(file)) return false;
  if (!targets.some(({ module }) => /\.[cm]?tsx?$/.test(module))) return false;
  // An extended configuration may set it.
  return !/"(?:inlineS|s)ourceMap"\s*:\s*true|"extends"/.test(readFileSync(file, 'utf8'));
}

const maxOthers = 10;

/** Candidates and fields that are not in the configuration, with reasons. */
function leftOutLines(targets: readonly NamedTarget[], others: readonly Candidate[]): string[] {
  const lines = others.slice(0, maxOthers).map(({ eventType, module, path, leaveOut }) => {
    const place = `${module.slice(2)}#${path}`;
    return `  ${eventType}  ${place}: ${leaveOut}`;
  });
  if (others.length > maxOthers) lines.push(`  and ${others.length - maxOthers} more: --json lists them`);
  const fields = [...new Set(targets.flatMap(({ leftOut }) => leftOut))];
  if (fields.length > 0) lines.push(`  fields that may be personal or secret: ${fields.join(', ')}`);
  const unkeyed = withoutKey(targets);
  if (unkeyed.length > 0)
    lines.push(
      `  the key of ${unkeyed.join(', ')}: the source shows no id; without one, its events have no order`,
    );
  return lines.length === 0 ? [] : ['left out:', ...lines];
}

/** Events without a key whose subject has other events with one: their order is not kept. */
function withoutKey(targets: readonly NamedTarget[]): readonly string[] {
  const keyed = new Set(
    targets.filter(({ key }) => key !== undefined).map(({ eventType }) => subjectOf(eventType)),
  );
  return targets
    .filter(({ key, eventType }) => key === undefined && keyed.has(subjectOf(eventType)))
    .map(({ eventType }) => eventType);
}

/** The user pressed Ctrl-C. */
class Cancelled extends Error {}

interface Answered extends Answers {
  readonly withScript: boolean;
  /** Functions that look like commands, but become no targets. */
  readonly others: readonly Candidate[];
}

interface Scene {
  readonly candidates: readonly Candidate[];
  readonly brokers: readonly string[];
  readonly topic: string;
  readonly script: ScriptEntry | undefined;
  /** Why the entered brokers or topic are invalid. */
  readonly problemOf: (brokers: string, topic: string) => string | undefined;
}

const hintWidth = 60;

/**
 * Asks on standard error.
 *
 * @throws Cancelled
 */
async function ask({ candidates, brokers, topic, script, problemOf }: Scene): Promise<Answered> {
  const { confirm, isCancel, multiselect, text } = await import('@clack/prompts');
  const streams = { input: process.stdin, output: process.stderr };
  const given = async <T>(answer: Promise<T>): Promise<Exclude<T, symbol>> => {
    const value = await answer;
    if (isCancel(value)) throw new Cancelled();
    return value as Exclude<T, symbol>;
  };
  const targets = await given(
    multiselect({
      ...streams,
      message: 'Which calls become events? (svc has selected its proposals)',
      initialValues: [...oneOfEach(candidates).targets],
      options: candidates.map((each) => ({
        value: each,
        label: `${each.eventType}  ${each.module.slice(2)} ${each.path}${each.leaveOut === undefined ? '' : `  (${each.leaveOut})`}`,
        hint: (each.payload ?? 'everything that it returns').slice(0, hintWidth),
      })),
      required: true,
      maxItems: 12,
    }),
  );
  const where = await given(
    text({
      ...streams,
      message: 'Brokers of Kafka? (Leave empty to try svc with files in ./svc-topics)',
      placeholder: 'localhost:9092',
      initialValue: brokers.join(','),
      validate: (value) => problemOf(value ?? '', topic),
    }),
  );
  const named = await given(
    text({
      ...streams,
      message: 'Topic of the events?',
      initialValue: topic,
      validate: (value) => problemOf('', value ?? ''),
    }),
  );
  const withScript =
    script !== undefined &&
    (await given(
      confirm({ ...streams, message: `Add "${script.name}": "${script.command}" to package.json?` }),
    ));
  // Deselected proposals need no reason.
  const others = candidates.filter((each) => each.leaveOut !== undefined && !targets.includes(each));
  return { targets, others, brokers: listOf(where), topic: named.trim(), withScript };
}

function listOf(text: string | undefined): string[] {
  return (text ?? '')
    .split(',')
    .map((each) => each.trim())
    .filter(Boolean);
}

/** The answers to `svc init`. */
interface Answers {
  readonly targets: readonly NamedTarget[];
  /** `host:port`. Empty: events go to files. */
  readonly brokers: readonly string[];
  readonly topic: string;
}

/** The text of `svc.config.yaml`. @param schema path of the JSON Schema, relative to the file */
function configText({ targets, brokers, topic }: Answers, schema: string): string {
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
    '# Which calls of this application become events. All settings: node_modules/svc/docs/configuration.md',
    '# "npx --no svc check" finds each target, "npx --no svc doctor" asks the broker as well.',
    'svc:',
    '  broker:',
    ...broker,
    `    # dlq-topic: ${quoted(`${topic}.dlq`)}   # for events that the topic refuses`,
    '    # async-mode: true   # calls do not wait for Kafka; kill -9 then loses the events in memory',
    '',
    '  # Expressions know #result, the parameters by name, and #self: node_modules/svc/docs/expressions.md',
    '  # svc.pii.fields masks, encrypts or hashes personal data: node_modules/svc/docs/personal-data.md',
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
      ? '      # payload: "{ id: #result.id }"   # default: everything that the function returns'
      : `      payload: ${JSON.stringify(payload)}`,
    ...(leftOut.length === 0
      ? []
      : [
          `      # left out: may be personal or secret, or no expression can name it: ${leftOut.map((name) => JSON.stringify(name).slice(1, -1)).join(', ')}`,
        ]),
    key === undefined
      ? '      # key: "#result.id"   # events with the same key keep their order; default: the event id'
      : `      key: ${JSON.stringify(key)}   # events with the same key keep their order`,
  ];
}

/** Without quotes if YAML then reads the same text. */
function quoted(text: string): string {
  return /^[A-Za-z./][\w./:-]*$/.test(text) &&
    !/^(?:true|false|null|yes|no|on|off)$/i.test(text) &&
    !/:$|: /.test(text)
    ? text
    : JSON.stringify(text);
}

/** The text of package.json with the script. Keeps the indentation, as npm does. */
function withScript(folder: string, { name, command }: ScriptEntry): string {
  const text = readFileSync(join(folder, 'package.json'), 'utf8');
  const mark = text.startsWith('\uFEFF') ? '\uFEFF' : '';
  const manifest = JSON.parse(text.slice(mark.length)) as { scripts?: Record<string, string> };
  const [, indent = '  '] = /^\s*\{\r?\n([ \t]+)/.exec(text.slice(mark.length)) ?? [];
  const all = { ...manifest, scripts: { ...manifest.scripts, [name]: command } };
  const [end = ''] = /\s*$/.exec(text) ?? [];
  const written = JSON.stringify(all, null, indent);
  return `${mark}${text.includes('\r\n') ? written.replaceAll('\n', '\r\n') : written}${end}`;
}

/** The path of the schema for editors, relative to the configuration file. */
function schemaPath(folder: string): string {
  const file = 'node_modules/svc/svc.config.schema.json';
  for (let up = '.', depth = 0; depth < 8; up = up === '.' ? '..' : `${up}/..`, depth++)
    if (existsSync(join(folder, up, file))) return `${up}/${file}`;
  return `./${file}`;
}

export function addInit(svc: Command): void {
  const init = svc
    .command('init')
    .summary('write svc.config.yaml for this application, from what it has')
    .description('Writes svc.config.yaml, from the functions of the application that look like commands.')
    .option(
      '--target <module#function=TYPE>',
      'this function, as ./src/orders.ts#createOrder=ORDER_CREATED; repeatable',
      repeated,
    )
    .option('--broker <host:port,...>', 'of Kafka (default: none, events go to files)')
    .option('--topic <topic>', 'of the events (default: <name of the package>.events.v1)')
    .option('--yes', 'ask nothing: one function for each event type that was found')
    .option('--no-script', 'leave package.json as it is')
    .option('--force', 'replace an existing svc.config.yaml')
    .option('--dry-run', 'print the file, write nothing');
  does<InitOptions>(init, (options) => runInit(options), { config: false });
}

/** A function to become a target. `line`: if its file shows it. */
type NamedTarget = Omit<Candidate, 'distance' | 'line' | 'leaveOut'> & { readonly line?: number };

interface Candidate extends Offer {
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
interface Search {
  readonly candidates: readonly Candidate[];
  readonly functionCount: number;
}

/**
 * Finds functions that look like commands, by their source text. Those that are not proposed come last.
 *
 * @param entries of the start: if known, only files that it loads are read
 */
function findCommands(folder: string, entries: readonly string[] | undefined): Search {
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
        ...{ id: sources.idOf({ file, path }), answers: isHandler(node) || offer.payload === nothingToSay },
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
function oneOfEach(candidates: readonly Candidate[]): {
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
function offerOf(node: AnyFunction, program: Program, noun: string, own?: OwnSource): Offer {
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
function namedTarget(text: string, folder: string): NamedTarget {
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
function eventTypeOfCommand(path: string, file: string): string | undefined {
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
