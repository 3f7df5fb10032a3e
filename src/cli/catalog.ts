import { relative, resolve } from 'node:path';
import type { Command } from 'commander';
import { sourceOf, sourcesIn } from '../capture/source/source-files.ts';
import { declaredTypes, isTest } from '../catalog/declared.ts';
import { catalogFolder, madeCatalog } from '../catalog/forms.ts';
import { createLearner } from '../catalog/learner.ts';
import {
  type Catalog,
  CatalogError,
  type Change,
  catalogFileName,
  catalogText,
  changesBetween,
  readCatalog,
} from '../catalog/shape.ts';
import { formatProblem, type Problem } from '../config/check/check.ts';
import type { Config } from '../config/config.ts';
import { loadConfig } from '../config/read/load.ts';
import { optionNamed, targetsName } from '../config/schema/schema.ts';
import { sleep } from '../ground/builtins.ts';
import { SvcError } from '../ground/errors.ts';
import { clientOf } from '../ground/management.ts';
import { printable, printableJson } from '../observe/logger.ts';
import { type TailRange, type TopicRecord, tailTopic, valueReader } from '../start/commands/inspect.ts';
import { topicsOf } from '../start/settings.ts';
import { onRequest, recoveryConfig, repeated, sinceText, timeOf } from './recovery.ts';
import { counted, does, onStopSignal, program, settingsInCode, WrongUse, warnOnly } from './terminal.ts';

interface CatalogOptions extends WatchOptions {
  readonly config?: string;
  readonly json?: true;
  readonly dir?: string;
  readonly check?: true;
  readonly against?: string;
  readonly watch?: true;
}

/**
 * `svc catalog`. Exit codes: 0 written, or with `--check` no change breaks consumers; 1 a change does, or the catalog cannot be made.
 *
 * @throws WrongUse
 */
async function runCatalog(options: CatalogOptions): Promise<number> {
  refuseMixed(options);
  try {
    const places = placesOf(options);
    if (options.watch) return await runWatch(options, places);
    return options.check ? check(options, places) : write(options, places);
  } catch (error) {
    if (!(error instanceof CatalogError)) throw error;
    if (options.json) process.stdout.write(`${printableJson({ ok: false, problem: error.message }, 2)}\n`);
    else process.stderr.write(`svc: ${printable(error.message)}\n`);
    return 1;
  }
}

function refuseMixed({ check, against, watch, ...others }: CatalogOptions): void {
  if (check && watch) throw new WrongUse('--check and --watch cannot be combined: --watch writes');
  if (against !== undefined && !check) throw new WrongUse('--against goes with --check');
  for (const name of ['since', 'until', 'topic', 'broker'] as const)
    if (others[name] !== undefined && !watch) throw new WrongUse(`--${name} goes with --watch`);
}

function write({ json }: CatalogOptions, { config, folder, before = new Map() }: Places): number {
  const declared = declaredTypes(config);
  const { unknown } = declared;
  const catalog = madeCatalog(declared, config, before);
  const changes = changesBetween(before, catalog);
  const written = catalogFolder(folder, config.baseDir).write(catalog, before);
  if (json) {
    const document = { ok: true, folder, eventTypes: [...catalog.keys()], changes, written, unknown };
    process.stdout.write(`${printableJson(document, 2)}\n`);
    return 0;
  }
  if (before.size > 0) process.stdout.write(changes.map(lineOf).join(''));
  const breaking = changes.filter(({ breaks }) => breaks).length;
  say([
    `${shown(folder)}: ${counted(catalog.size, 'event type')}, ${counted(written.length, 'file')} written`,
    ...(breaking > 0 ? [`${counted(breaking, 'change')} can break consumers`] : []),
    ...noteOfUnknown(unknown),
  ]);
  return 0;
}

function check({ against, json }: CatalogOptions, { config, folder, before: own }: Places): number {
  const before = against === undefined ? own : readCatalog(resolve(against));
  if (before === undefined) throw new CatalogError(nothingToCompare(against, folder));
  const declared = declaredTypes(config);
  const { unknown } = declared;
  const catalog = madeCatalog(declared, config, own ?? new Map());
  const changes = changesBetween(before, catalog);
  const old = catalogFolder(folder, config.baseDir).outdated(catalog);
  const breaking = changes.filter(({ breaks }) => breaks).length;
  const code = breaking === 0 ? 0 : 1;
  if (json) {
    const eventTypes = [...catalog.keys()];
    const document = { ok: code === 0, folder, eventTypes, changes, outdated: old, unknown };
    process.stdout.write(`${printableJson(document, 2)}\n`);
    return code;
  }
  process.stdout.write(changes.map(lineOf).join(''));
  say([
    breaking === 0
      ? `${counted(catalog.size, 'event type')}: nothing breaks consumers`
      : `${counted(breaking, 'change')} can break consumers: keep the fields that they read, or publish a new event type`,
    ...(old.length > 0 ? [`${shown(folder)} is not up to date: ${program} catalog writes it`] : []),
    ...noteOfUnknown(unknown),
  ]);
  return code;
}

function nothingToCompare(against: string | undefined, folder: string): string {
  if (against !== undefined) return `${against} does not exist`;
  return `there is no catalog in ${shown(folder)} yet: ${program} catalog makes it`;
}

const saveEveryMs = 1_000;
/** Reading the application again takes at most this fraction of the time, as 1/n. */
const readingShare = 10;

function readApplication(config: Config, folder: string) {
  const words = sourceWords(config.baseDir, (path) => path.startsWith(folder));
  return { config, declared: declaredTypes(config), isWord: (name: string) => words.has(name) };
}

/** Saves what was learned at most once a second, so that little is lost when the process ends. */
function createSaving(
  { config: file, json }: { readonly config?: string; readonly json?: true },
  { config, folder, before = new Map() }: Places,
  learner: ReturnType<typeof createLearner>,
) {
  let saved = before;
  let savedText = '';
  let isDue = false;
  let unknown: readonly string[] = [];
  let readAgainAtMs = 0;

  /** The application may be changed while the command runs. */
  function readAgain(): void {
    const begunMs = performance.now();
    const application = readApplication(configOf(file), folder);
    learner.use(application);
    unknown = application.declared.unknown;
    readAgainAtMs = performance.now() + (performance.now() - begunMs) * readingShare;
  }

  function save(): Catalog {
    const catalog = learner.catalog();
    const text = catalogText(catalog);
    if (text === savedText) return catalog;
    catalogFolder(folder, config.baseDir).write(catalog, saved);
    if (!json) process.stdout.write(changesBetween(saved, catalog).map(lineOf).join(''));
    [saved, savedText] = [catalog, text];
    return catalog;
  }

  const timer = setInterval(() => {
    if (!isDue) return;
    isDue = false;
    try {
      if (performance.now() >= readAgainAtMs) readAgain();
      save();
    } catch (error) {
      // A file may be half-written. The next save retries, and the last one reports it.
      if (!(error instanceof CatalogError)) throw error;
      isDue = true;
    }
  }, saveEveryMs);
  return {
    /** There may be changes. */
    due(): void {
      isDue = true;
    },
    /** The changes since the command started. @throws CatalogError */
    now() {
      try {
        readAgain();
      } finally {
        save();
      }
      return { catalog: saved, changes: changesBetween(before, saved), unknown };
    },
    end: () => clearInterval(timer),
  };
}

interface Places {
  readonly config: Config;
  readonly folder: string;
  /** `undefined`: there is no catalog yet. */
  readonly before: Catalog | undefined;
}

/** Limit of the text output. */
const maxPlaces = 5;
const defaultFolder = 'event-catalog';

/** @throws CatalogError */
function placesOf({ config: file, dir }: { readonly config?: string; readonly dir?: string }): Places {
  const config = configOf(file);
  const folder = dir === undefined ? resolve(config.baseDir, defaultFolder) : resolve(dir);
  return { config, folder, before: readCatalog(resolve(folder, catalogFileName)) };
}

/** Requires a valid list of events: a target that is left out would look like a removed one. */
function configOf(file: string | undefined): Config {
  const { config, problems, targetProblems, notFound } = loadConfig({ file });
  if (notFound !== undefined) throw new CatalogError(`${notFound} ${settingsInCode}`);
  const wrong = [...problems.filter(isInTheWay), ...targetProblems.flatMap((each) => each.problems)];
  if (wrong.length === 0) return config;
  const more = wrong.length > maxPlaces ? [`and ${wrong.length - maxPlaces} more: ${program} check`] : [];
  throw new CatalogError([...wrong.slice(0, maxPlaces).map(formatProblem), ...more].join('; '));
}

/** Problems with brokers, keys and databases do not affect the catalog. */
function isInTheWay({ name }: Problem): boolean {
  return name === 'svc.broker.topic' || name === targetsName || optionNamed(name) === undefined;
}

function noteOfUnknown(unknown: readonly string[]): string[] {
  if (unknown.length === 0) return [];
  const more = unknown.length > maxPlaces ? ` and ${unknown.length - maxPlaces} more` : '';
  return [
    `event type or topic known only at runtime: ${unknown.slice(0, maxPlaces).join(', ')}${more}; ${program} catalog --watch finds them in the topics`,
  ];
}

const shown = (folder: string): string => relative(process.cwd(), folder) || '.';

/** A change as a line of text. */
function lineOf({ eventType, path, says, breaks }: Change): string {
  const where = path === '' ? eventType : `${eventType} ${path}`;
  return `${breaks ? 'BREAKS' : 'ok    '}  ${printable(`${where}: ${says}`)}\n`;
}

/** Messages go to standard error, data to standard output. */
function say(lines: readonly string[]): void {
  process.stderr.write(`${lines.map(printable).join('\n')}\n`);
}

interface WatchOptions {
  readonly config?: string;
  readonly json?: true;
  readonly since?: number;
  readonly until?: number;
  readonly topic?: readonly string[];
  readonly broker?: string;
}

const retryMs = 2_000;

/** `svc catalog --watch`: learns from the events in the topics until Ctrl-C. Exit code 1: a topic could not be read, or no topic exists. */
async function runWatch(options: WatchOptions, places: Places): Promise<number> {
  const { since, until, json } = options;
  if (since !== undefined && until !== undefined && since >= until)
    throw new WrongUse('--since is not before --until');
  const { config, folder, before = new Map() } = places;
  const broker = brokerOf(options);
  const application = readApplication(config, folder);
  const learner = createLearner(application, before);
  const topics = [...new Set([...topicsIn(application), ...(options.topic ?? [])])].sort();
  const saving = createSaving(options, places, learner);
  const counts = { events: 0, others: 0, unreadable: 0 };
  const stopping = new AbortController();
  let isInterrupted = false;
  const forget = onStopSignal(() => {
    isInterrupted = true;
    stopping.abort();
  });
  say([`watching ${topics.join(', ')}${until === undefined ? '; Ctrl-C ends it' : ''}`]);
  const read = valueReader(broker);
  const told = new Set<string>();
  // Messages of svc contain no values.
  const tell = (error: unknown): undefined => {
    if (!(error instanceof SvcError)) throw error;
    if (!told.has(error.message)) say([`svc: ${error.message}`]);
    told.add(error.message);
  };
  const learn = async (topic: string, records: readonly TopicRecord[]): Promise<void> => {
    for (const record of records) {
      if (stopping.signal.aborted) return;
      const value = await read(record).catch(tell);
      const result = learner.learn(topic, record.headers['content-type'], value);
      if (result === 'learned') counts.events++;
      else if (result === 'no event') counts.unreadable++;
      else counts.others++;
    }
    saving.due();
  };
  let ends: FollowEnd[];
  try {
    ends = await Promise.all(
      topics.map((topic) => follow(broker, { topic, fromMs: since, untilMs: until }, stopping.signal, learn)),
    );
  } finally {
    forget();
    saving.end();
  }
  const { changes, catalog, unknown } = saving.now();
  const held = learner.heldBack();
  const isWell = !ends.includes('failed') && ends.includes('read');
  if (json) {
    const { events, others, unreadable: unread } = counts;
    const document = {
      ...{ ok: isWell, folder, events, leftOut: others, notReadable: unread },
      ...{ eventTypes: [...catalog.keys()], changes, heldBack: held, unknown },
    };
    process.stdout.write(`${printableJson(document, 2)}\n`);
    return isWell ? 0 : 1;
  }
  const left = [
    ...(counts.others > 0 ? [`${counts.others} left out, of other services or types`] : []),
    ...(counts.unreadable > 0 ? [`${counts.unreadable} no events of svc, or not readable`] : []),
  ];
  say([
    [`${counted(counts.events, 'event')} of ${counted(learner.seen(), 'type')}`, ...left].join(', '),
    `${isInterrupted ? `${onRequest}: ` : ''}what was learned is in ${shown(folder)}`,
    ...(held > 0 ? [`${counted(held, 'name')} may be data, and wait for more events`] : []),
    ...noteOfUnknown(unknown),
  ]);
  return isWell ? 0 : 1;
}

/** With the brokers of the command line. Topic files may be created later. */
function brokerOf(options: WatchOptions): Config {
  const { config, checkBroker } = recoveryConfig(options);
  if (!clientOf(config.broker.client).isFiles) checkBroker();
  return config;
}

function topicsIn({ declared, config }: ReturnType<typeof readApplication>): string[] {
  return [...topicsOf(config), ...[...declared.types.values()].flatMap(({ topics }) => topics)];
}

/** `absent`: until the end, the topic did not exist or the broker did not answer. */
type FollowEnd = 'read' | 'absent' | 'failed';

/** Retries while the topic does not exist or the broker does not answer. */
async function follow(
  broker: Config,
  { topic, fromMs: since, untilMs: until }: TailRange,
  signal: AbortSignal,
  learn: (topic: string, records: readonly TopicRecord[]) => Promise<void>,
): Promise<FollowEnd> {
  const beganMs = Date.now();
  warnOnly(broker);
  let told = '';
  const read = new Map<number, number>();
  const isNew = ({ partition, offset }: TopicRecord): boolean => {
    if (offset <= (read.get(partition) ?? -1)) return false;
    read.set(partition, offset);
    return true;
  };
  for (let fromMs = since; ; fromMs ??= beganMs) {
    try {
      const range = { topic, fromMs, untilMs: until };
      await tailTopic(broker, range, signal, (records) => learn(topic, records.filter(isNew)));
      return 'read';
    } catch (error) {
      if (!(error instanceof SvcError)) throw error;
      if (signal.aborted) return 'absent';
      if (error.message !== told) say([`svc: ${error.message}`]);
      told = error.message;
      if (error.code !== 'SVC_ADAPTERS_NOT_REACHABLE' || (until ?? Number.POSITIVE_INFINITY) <= Date.now())
        return 'failed';
    }
    await sleep(retryMs, undefined, { signal }).catch(() => {});
    if (signal.aborted) return 'absent';
  }
}

export function addCatalog(svc: Command): void {
  const catalog = svc
    .command('catalog')
    .summary('write all event types as schemas, TypeScript and AsyncAPI')
    .description(
      'Describes all event types, from configuration and code: a JSON Schema and an Avro\nschema each, TypeScript types, and an AsyncAPI document.',
    )
    .option('--dir <folder>', 'its folder (default: event-catalog, beside the configuration)')
    .option('--check', 'write nothing; exit 1 if a change breaks consumers')
    .option(
      '--against <file>',
      'with --check: compare with this svc.catalog.json, such as that of the main branch',
    )
    .option('--watch', 'learn the form of payloads from events in the topics, without values; until Ctrl-C')
    .option('--since <time>', `with --watch: ${sinceText} (default: new events only)`, timeOf('since'))
    .option('--until <time>', 'with --watch: end with events stored before', timeOf('until'))
    .option('--topic <topic>', 'with --watch: this topic as well; repeatable', repeated)
    .option('--broker <host:port,...>', 'with --watch: instead of svc.broker.bootstrap-servers');
  does<CatalogOptions>(catalog, (options) => runCatalog(options));
}

const word = /[A-Za-z_$][\w$]*/g;

/** The words in an application's sources, without tests: names of fields, but rarely data. */
function sourceWords(folder: string, isLeftOut: (path: string) => boolean): ReadonlySet<string> {
  const words = new Set<string>();
  for (const path of sourcesIn(folder)) {
    if (isLeftOut(path) || isTest(relative(folder, path))) continue;
    try {
      for (const [found] of sourceOf(path)?.matchAll(word) ?? []) words.add(found);
    } catch {
      // The file is gone or unreadable.
    }
  }
  return words;
}
