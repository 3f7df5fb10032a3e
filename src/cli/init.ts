import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import type { Command } from 'commander';
import { subjectOf } from '../capture/report.ts';
import { formatProblem } from '../config/check/validate.ts';
import { fileNames, loadConfig } from '../config/read/load.ts';
import { nextTurn } from '../ground/builtins.ts';
import { type Manifest, nearestManifest } from '../ground/files.ts';
import { printable, printableJson } from '../observe/logger.ts';
import { inspectTargets } from '../start/commands/inspect-targets.ts';
import { type ScriptEntry, scriptEntryOf, startOf } from './check-start.ts';
import {
  type Candidate,
  findCommands,
  type NamedTarget,
  namedTarget,
  oneOfEach,
  type Search,
} from './commands-found.ts';
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
