import { existsSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { formatProblem } from '../config/check/validate.ts';
import { loadConfig } from '../config/read/load.ts';
import { fileNames } from '../config/read/read-file.ts';
import { nextTurn } from '../ground/builtins.ts';
import { type Manifest, nearestManifest } from '../ground/files.ts';
import { printable, printableJson } from '../observe/logger.ts';
import { inspectTargets } from '../start/commands/inspect-targets.ts';
import { entriesOf } from './check-start.ts';
import {
  type Answers,
  type Candidate,
  configText,
  findCommands,
  namedTarget,
  oneOfEach,
  type ScriptEntry,
  type Search,
  schemaPath,
  scriptEntryOf,
  withScript,
} from './commands-found.ts';
import { onStopSignal } from './progress.ts';
import { program, WrongUse } from './wrong-use.ts';

// `svc init`, from an application to its first configuration.

export interface InitOptions {
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
 * `svc init`: the first configuration of an application. Exit codes: 0 written, 1 there is one already, or it was stopped.
 *
 * @throws WrongUse
 */
export async function runInit(options: InitOptions): Promise<number> {
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
    // A signal that came while files were read is heard now.
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

/** Why nothing is written here. A configuration of another form would go on being read, or not be read any more. */
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
  if (named.length > 0) return { ...known, targets: named.map((text) => namedTarget(text, manifest.folder)) };
  const start = manifest.scripts.get('start')?.trim().split(/\s+/);
  const search = findCommands(manifest.folder, start && entriesOf(start, manifest.folder));
  const { candidates } = search;
  if (candidates.length === 0) throw new WrongUse(nothingFound(search));
  if (yes) return { ...known, targets: oneOfEach(candidates) };
  // One of no width is none that somebody reads.
  if (process.stdin.isTTY && process.stderr.isTTY && process.stderr.columns > 0)
    return ask({ candidates, brokers, topic, script, problemOf });
  throw new WrongUse(
    `no terminal to ask on: give --yes for what was found, or name each: ${candidates
      .slice(0, mostNamed)
      .map(({ module, path, eventType }) => `--target '${module}#${path}=${eventType}'`)
      .join(' ')}`,
  );
}

const mostNamed = 5;

function nothingFound({ functionCount }: Search): string {
  return `of ${functionCount} functions that were read none looks like a command (create…, update…, cancel…, pay…): name one, as --target ./src/orders.ts#createOrder=ORDER_CREATED. What has no name is declared in code, with publishEvent()`;
}

function problemOf(brokers: string, topic: string): string | undefined {
  const wrong = listOf(brokers).find((each) => !/^(?:\[[\da-f:]+\]|[\w.-]+):\d{1,5}$/i.test(each));
  if (wrong !== undefined) return `brokers are host:port, separated by commas: not ${printable(wrong)}`;
  return topicPattern.test(topic.trim())
    ? undefined
    : 'a topic has letters, digits, ".", "_" and "-", 249 at most';
}

/** Without the scope; what Kafka takes no topic with becomes a dash. */
function nameOf({ name = 'app' }: Manifest): string {
  return name.replace(/^@[^/]*\//, '').replace(/[^\w.-]+/g, '-') || 'app';
}

/** First beside its place, where it is read as `svc check` reads it: what does not pass is not left behind. */
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
  { folder, scripts }: Manifest,
  { targets, brokers, topic }: Answered,
  text: string,
  script: ScriptEntry | undefined,
): void {
  const file = join(folder, fileName);
  if (json) {
    const found = targets.map(({ module, path, eventType, payload, key }) => ({
      ...{ module, function: path, eventType },
      ...{ payload: payload ?? null, key: key ?? null },
    }));
    const document = {
      ok: true,
      dryRun: dryRun === true,
      file,
      script: script ?? null,
      brokers,
      topic,
      targets: found,
    };
    process.stdout.write(`${printableJson(document, 2)}\n`);
    return;
  }
  if (dryRun) process.stdout.write(text);
  const events = brokers.length === 0 ? 'files in ./svc-topics' : `topic ${topic}`;
  const name = script?.name ?? [...scripts].find(([, command]) => command.includes('svc/register'))?.[0];
  const start =
    name === undefined ? 'start the application with: node --import svc/register <file>' : `npm run ${name}`;
  const lines = dryRun
    ? [`${file} would have ${targets.length} targets: nothing was written`]
    : [
        `${file}: ${targets.length} ${targets.length === 1 ? 'target' : 'targets'}, events go to ${events}`,
        ...(script !== undefined ? [`package.json: script ${script.name}`] : []),
        ...(wantsScript && script === undefined ? ['package.json stays as it is'] : []),
        'next:',
        `  ${program} doctor`,
        `  ${start}`,
      ];
  process.stderr.write(`${lines.map(printable).join('\n')}\n`);
}

/** Somebody pressed Ctrl-C. */
class Cancelled extends Error {}

interface Answered extends Answers {
  readonly withScript: boolean;
}

interface Scene {
  readonly candidates: readonly Candidate[];
  readonly brokers: readonly string[];
  readonly topic: string;
  readonly script: ScriptEntry | undefined;
  /** Why what was typed for brokers and topic cannot be taken. */
  readonly problemOf: (brokers: string, topic: string) => string | undefined;
}

const hintWidth = 60;

/**
 * Asks on the terminal, on standard error.
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
      message: 'Which calls become events? (space ticks, enter goes on)',
      options: candidates.map((each) => ({
        value: each,
        label: `${each.eventType}  ${each.module.slice(2)} ${each.path}`,
        hint: (each.payload ?? 'what it returns').slice(0, hintWidth),
      })),
      required: true,
      maxItems: 12,
    }),
  );
  const where = await given(
    text({
      ...streams,
      message: 'Brokers of Kafka? (empty: files in ./svc-topics, to try it)',
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
  return { targets, brokers: listOf(where), topic: named.trim(), withScript };
}

function listOf(text: string | undefined): string[] {
  return (text ?? '')
    .split(',')
    .map((each) => each.trim())
    .filter(Boolean);
}
