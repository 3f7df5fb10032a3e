import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Node } from 'oxc-parser';
import { formatInspection, keepOne, subjectOf, type TargetReport, writeMaps } from '../capture/report.ts';
import {
  type DeclaredEvent,
  type DeclaredFunction,
  type DeclaredRule,
  findDeclared,
} from '../capture/source/declared.ts';
import { finder } from '../capture/source/find.ts';
import { parse } from '../capture/source/parse-text.ts';
import {
  type AnyFunction,
  isFunction,
  keyOf,
  parameterNames,
  parametersOf,
  walk,
} from '../capture/source/syntax.ts';
import { locate } from '../capture/source/target-files.ts';
import { isProblem } from '../capture/source/wrapper-place.ts';
import { declaredTypes, isTest, spelledOut } from '../catalog/declared.ts';
import { mayMeet, merged, propertiesOf, type Shape, unknownShape } from '../catalog/shape.ts';
import { formatProblem, type Problem } from '../config/check/validate.ts';
import type { Config } from '../config/config.ts';
import { loadConfig } from '../config/read/load.ts';
import type { TargetConfig } from '../config/schema/target.ts';
import { nearestManifest } from '../ground/files.ts';
import { type PathRule, piiStrategies } from '../ground/pii-rule.ts';
import { unsupportedNode } from '../ground/version.ts';
import { printable, printableJson } from '../observe/logger.ts';
import { inspectDrivers, inspectOtel } from '../start/commands/inspect.ts';
import { inspectTargets } from '../start/commands/inspect-targets.ts';
import { eventTypeOf, unusedSchemas } from '../start/settings.ts';
import { annotationOf, importedFrom, isAboutSame, isCallOf, type Source } from './calls.ts';
import {
  checkOnline,
  counted,
  formatOnline,
  type OnlineCheck,
  rightTo,
  stateLines,
  unjoinedText,
} from './check-online.ts';
import {
  checkBundle,
  checkStart,
  formatStart,
  isStartWell,
  type StartCheck,
  startOf,
} from './check-start.ts';
import { startWithSvc } from './commands-found.ts';
import { inClearText, sayUnguarded } from './outbox.ts';
import { program, settingsInCode } from './wrong-use.ts';

interface CheckOptions {
  readonly config?: string;
  readonly json?: true;
  readonly online?: true;
  /** Built files, and folders of them. */
  readonly bundle?: readonly string[];
}

/** `svc check`: inspects the targets without starting the application. With `--online` it also checks the services. */
export async function runCheck(options: CheckOptions, command: readonly string[]): Promise<number> {
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
  process.stdout.write(`${formatInspection(reports)}\n${formatDeclared(declared)}`);
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

function formatDeclared(declared: readonly DeclaredFunction[]): string {
  if (declared.length === 0) return '';
  const lines = declared.map(({ file, line, name, by }) => `  ${name}  ${by}  ${file}:${line}\n`);
  return `declared in code, found in the source: ${declared.length}\n${lines.join('')}`;
}

export interface DoctorOptions {
  readonly config?: string;
  readonly json?: true;
}

const labels = { ok: 'ok', warning: 'WARNING', error: 'ERROR' } as const;

/** `svc doctor`: one list of all checks, each failure with its fix. Exit code 1: there is a failure. */
export async function runDoctor(options: DoctorOptions, command: readonly string[]): Promise<number> {
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
  readonly declared: readonly DeclaredFunction[];
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
  const remarks = [...warnings, ...doubts, ...inspectDrivers(config), ...inspectOtel(config)];
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
  found: readonly DeclaredRule[],
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

/** A target and its function in the source. */
interface ReadTarget {
  readonly target: TargetConfig;
  readonly eventType: string;
  readonly source: Source;
  readonly node: AnyFunction | undefined;
  /** Targets with the same place capture the same function. */
  readonly place: string;
}

/** Warnings about targets and rules that are valid separately, but probably a mistake together. */
export function doubtsOf(config: Config, declared: readonly DeclaredEvent[]): Problem[] {
  const read = readTargets(config);
  return [
    ...doubledCalls(read),
    ...differentKeys(config, declared),
    ...unusedSchemas(config, declaredTypes(config).types.keys(), areTypesKnown(declared)),
    ...(config.pii.enabled ? unmetRules(config, read, declared) : []),
  ];
}

function readTargets({ targets, baseDir }: Config): ReadTarget[] {
  const sources = new Map<string, ReturnType<typeof readSource>>();
  return targets.flatMap((target): ReadTarget[] => {
    const located = locate(target.module, baseDir);
    if (!('paths' in located)) return [];
    return located.paths.flatMap((file) => {
      if (!sources.has(file)) sources.set(file, readSource(file));
      const source = sources.get(file);
      const found = source?.find(target.function);
      if (source === undefined || found === undefined || isProblem(found)) return [];
      const { shown, parametersOf } = found;
      const node = (parametersOf ?? shown) as AnyFunction | undefined;
      const place = `${file} ${JSON.stringify(found.place)}`;
      return [{ target, eventType: eventTypeOf(target), source, node, place }];
    });
  });
}

/** `undefined`: the file cannot be read, which another check reports. */
function readSource(file: string): (Source & { find: ReturnType<typeof finder> }) | undefined {
  try {
    const text = readFileSync(file, 'utf8');
    const parsed = parse(file, text, { goal: 'unknown', typed: /\.[cm]?tsx?$/.test(file) });
    if (isProblem(parsed)) return undefined;
    return { file, program: parsed.program, find: finder(parsed.program, text) };
  } catch {
    return undefined;
  }
}

// Two events for one call.

function doubledCalls(read: readonly ReadTarget[]): Problem[] {
  const found: Problem[] = [];
  for (const [at, outer] of read.entries())
    for (const [index, inner] of read.entries()) {
      const [a, b] = [outer.target, inner.target];
      if (a === b) continue;
      const name = `svc.targets[${a.index}]`;
      if (at < index && outer.place === inner.place) {
        const message = `${a.id} and ${b.id} name the same function: each call makes two events, ${outer.eventType} and ${inner.eventType}`;
        found.push({ name, message, where: a.where, fix: 'Keep one of them' });
      } else if (outer.place !== inner.place && callsFor(outer, inner)) {
        const message = `${a.id} calls ${b.id}: one call makes two events, ${outer.eventType} and ${inner.eventType}`;
        found.push({ name, message, where: a.where, fix: keepOne });
      }
    }
  return found;
}

/** Whether a function calls another one about the same subject, or returns its result. */
function callsFor({ node, eventType, source }: ReadTarget, inner: ReadTarget): boolean {
  if (node?.body == null) return false;
  const isSame = isAboutSame(eventType, inner.eventType);
  const place = { file: inner.source.file, path: inner.target.function };
  for (const each of walk([node.body])) {
    if (each.type !== 'CallExpression' || !isCallOf(each.callee, source, place)) continue;
    if (isSame || isReturned(node.body, each)) return true;
  }
  return false;
}

function isReturned(body: Node, call: Node): boolean {
  const plain = (node: Node | null): Node | null =>
    node?.type === 'AwaitExpression' ? plain(node.argument) : node;
  if (plain(body) === call) return true;
  return [...walk([body])].some((each) => each.type === 'ReturnStatement' && plain(each.argument) === call);
}

// Keys that differ between events of one aggregate.

interface Keyed {
  readonly eventType: string;
  /** The expression; `undefined`: the event id. */
  readonly key: string | undefined;
  readonly name: string;
  readonly where: string;
}

function differentKeys({ targets, broker, baseDir }: Config, declared: readonly DeclaredEvent[]): Problem[] {
  const groups = new Map<string, Keyed[]>();
  const add = (subject: string, topic: string, one: Keyed): void => {
    if (subject === '') return;
    const id = `${subject}\n${topic}`;
    groups.set(id, [...(groups.get(id) ?? []), one]);
  };
  for (const target of targets) {
    const { key: own, outbox, topic = broker.topic, index, where } = target;
    const key = own ?? outbox?.aggregateId;
    const eventType = eventTypeOf(target);
    const subject = outbox?.aggregateType.toLowerCase() ?? subjectOf(eventType);
    // A function cannot be compared.
    const shown = typeof key === 'function' ? anyKey : key;
    add(subject, topic, { eventType, key: shown, name: `svc.targets[${index}].key`, where });
  }
  for (const { eventType, topic, key, file, line, name } of declared) {
    if (eventType === undefined || topic === undefined || isTest(file)) continue;
    const where = `${resolve(baseDir, file)}:${line}`.replace(`${baseDir}/`, '');
    add(subjectOf(eventType), topic ?? broker.topic, {
      eventType,
      key: key === 'a function' ? anyKey : key,
      name,
      where,
    });
  }
  return [...groups].flatMap(([id, all]): Problem[] => {
    const subject = id.slice(0, id.indexOf('\n'));
    for (const [at, a] of all.entries())
      for (const b of all.slice(at + 1)) {
        if (areAlike(a.key, b.key, subject)) continue;
        const [bare, other] = a.key === undefined ? [a, b] : [b, a];
        const message = `${other.eventType} has the key ${other.key === anyKey ? 'of a function' : other.key}, and ${bare.eventType} ${bare.key ?? 'none'}: Kafka keeps the order of events with the same key only`;
        const fix = `Use the same key for all events about one ${subject}. Ignore this if both keys have the same value`;
        return [{ name: bare.name, message, where: bare.where, fix }];
      }
    return [];
  });
}

const anyKey = '*';

function areAlike(a: string | undefined, b: string | undefined, subject: string): boolean {
  if (a === undefined || b === undefined) return a === b;
  const [one, other] = [namesOfKey(a, subject), namesOfKey(b, subject)];
  return one === undefined || other === undefined || one.some((name) => other.includes(name));
}

/**
 * Names for the value of a key: `#orderId` and `#order.id` are the id of the order, but `#result.id` is the id of the result.
 * `undefined`: the source does not tell.
 */
function namesOfKey(key: string, subject: string): string[] | undefined {
  const plain = key
    .replace(/\s+/g, '')
    .replaceAll('?.', '.')
    .replace(/\.toString\(\)$/, '');
  const chain = /^#?((?:[A-Za-z_$][\w$]*|args\[\d+\])(?:\.[A-Za-z_$][\w$]*)*)$/.exec(plain)?.[1];
  if (chain === undefined) return key === anyKey ? undefined : [plain];
  const names = chain.split('.');
  const last = names.at(-1) ?? '';
  if (/^(?:[pa]\d+|args\[\d+\]|result)$/.test(last)) return undefined;
  const own = `${(subject.split(' ').at(-1) ?? '').toLowerCase()}id`;
  const isOwn = [own, 'id'].includes(last.toLowerCase()) && names[0] !== 'result';
  return isOwn ? ['id', own] : [last.toLowerCase() === own ? own : last];
}

// Rules for personal data that match no field.

function unmetRules(
  config: Config,
  read: readonly ReadTarget[],
  declared: readonly DeclaredEvent[],
): Problem[] {
  const rules = config.pii.fields;
  if (rules.length === 0 && config.targets.every(({ pii = [] }) => pii.length === 0)) return [];
  const shapes = new Map(config.targets.map((target) => [target, shapeOfTarget(target, read)]));
  const targets = new Set(config.targets.map(({ id }) => id));
  const inCode = [...declaredTypes(config).types.values()].filter(
    ({ from }) => !from.every((id) => targets.has(id)),
  );
  const all = [
    ...shapes.values(),
    ...inCode.map(({ payload }) => payload),
    // An unknown payload may have any field.
    ...(areTypesKnown(declared) ? [] : [unknownShape]),
  ];
  const found =
    all.length === 0
      ? []
      : rules.flatMap((rule, index) => unmet(rule, all, `svc.pii.fields[${index}]`, 'any payload'));
  const ofTargets = config.targets.flatMap((target) =>
    (target.pii ?? []).flatMap((rule, index) =>
      unmet(
        rule,
        [shapes.get(target) ?? unknownShape],
        `svc.targets[${target.index}].pii[${index}]`,
        `the payload of ${eventTypeOf(target)}`,
      ).map((each) => ({ ...each, where: target.where })),
    ),
  );
  return [...found, ...ofTargets];
}

/** No event type is computed in code. */
const areTypesKnown = (declared: readonly DeclaredEvent[]): boolean =>
  declared.every(({ eventType, file }) => eventType !== undefined || isTest(file));

function unmet(rule: PathRule, shapes: readonly Shape[], name: string, of: string): Problem[] {
  if (rule.path === '' || shapes.some((shape) => mayMeet(rule, shape))) return [];
  const message = `the path "${rule.path}" matches no field of ${of}, according to the types in the source: the value may be published in clear`;
  return [{ name, message, fix: 'Correct the path or remove it' }];
}

/** The payload's shape according to the types of the target's function. */
function shapeOfTarget(
  { payload, payloadIndex, params, id }: TargetConfig,
  read: readonly ReadTarget[],
): Shape {
  const found = read.filter(({ target }) => target.id === id);
  const [{ node, source } = { node: undefined, source: undefined }, ...more] = found;
  if (typeof payload === 'function' || node === undefined || source === undefined || more.length > 0)
    return unknownShape;
  const names = params ?? parameterNames(node);
  const expression = payload ?? (payloadIndex < 0 ? '#result' : `#p${payloadIndex}`);
  return spelledOut(expression, (tokens) => {
    const steps = tokens.filter(({ text }) => text !== '.' && text !== '?.').map(({ text }) => text);
    const isChain = tokens.every(({ kind, text }, at) =>
      at % 2 === 0 ? kind === 'name' || kind === 'variable' : text === '.' || text === '?.',
    );
    const [first = '', ...rest] = steps;
    if (!isChain) return undefined;
    const position = Number(/^[pa](\d+)$/.exec(first)?.[1] ?? names.lastIndexOf(first));
    const type = first === 'result' ? node.returnType?.typeAnnotation : typeOfParameter(node, position);
    const start = type == null ? unknownShape : shapeOfType(type, source, 0);
    return rest.reduce<Shape | undefined>((shape, name) => shape?.properties?.[name], start);
  });
}

function typeOfParameter(node: AnyFunction, position: number): Node | undefined {
  const each = parametersOf(node)[position];
  const target = each?.type === 'AssignmentPattern' ? each.left : each;
  return target && annotationOf(target);
}

const kindsOfTypes: Readonly<Record<string, Shape>> = {
  TSStringKeyword: { type: ['string'] },
  TSLiteralType: { type: ['string'] },
  TSNumberKeyword: { type: ['number'] },
  TSBigIntKeyword: { type: ['string'] },
  TSBooleanKeyword: { type: ['boolean'] },
  TSNullKeyword: { type: ['null'] },
  TSUndefinedKeyword: { type: ['null'] },
  TSVoidKeyword: { type: ['null'] },
};
const deepestType = 12;

function shapeOfType(type: Node, source: Source, depth: number): Shape {
  const next = (each: Node): Shape => shapeOfType(each, source, depth + 1);
  if (depth > deepestType) return unknownShape;
  if (type.type === 'TSTypeLiteral') return shapeOfMembers(type.members, source, depth);
  if (type.type === 'TSArrayType') return { type: ['array'], items: next(type.elementType) };
  if (type.type === 'TSUnionType') return allOf(type.types.map(next));
  if (type.type === 'TSIntersectionType') return allOf(type.types.map(next));
  if (type.type !== 'TSTypeReference' || type.typeName.type !== 'Identifier')
    return kindsOfTypes[type.type] ?? unknownShape;
  const { name } = type.typeName;
  const [argument] = type.typeArguments?.params ?? [];
  if (argument && /^(?:Promise|Readonly|Required|Partial|NonNullable)$/.test(name)) return next(argument);
  if (argument && /^(?:Array|ReadonlyArray)$/.test(name)) return { type: ['array'], items: next(argument) };
  if (name === 'Date') return { type: ['string'] };
  return argument ? unknownShape : shapeNamed(name, source, depth);
}

/** With an unknown member, the union may have any shape. */
function allOf(shapes: readonly Shape[]): Shape {
  if (shapes.some(({ type }) => type === undefined)) return unknownShape;
  return shapes.reduce(merged, unknownShape);
}

function shapeNamed(name: string, source: Source, depth: number): Shape {
  for (const statement of source.program.body) {
    const declared =
      (statement.type === 'ExportNamedDeclaration' || statement.type === 'ExportDefaultDeclaration') &&
      statement.declaration
        ? statement.declaration
        : statement;
    if (declared.type === 'TSInterfaceDeclaration' && declared.id.name === name)
      return declared.extends.length > 0 ? unknownShape : shapeOfMembers(declared.body.body, source, depth);
    if (declared.type === 'TSTypeAliasDeclaration' && declared.id.name === name)
      return shapeOfType(declared.typeAnnotation, source, depth + 1);
    if (declared.type === 'ClassDeclaration' && declared.id?.name === name)
      return declared.superClass ? unknownShape : shapeOfMembers(declared.body.body, source, depth);
  }
  const imported = importedFrom(name, source);
  const other = imported && readSource(imported.file);
  if (imported === undefined || other === undefined || depth > deepestType) return unknownShape;
  return shapeNamed(imported.path, other, depth + 1);
}

/** A member that is not a plain property, such as `toJSON` or an index signature, may add others. */
function shapeOfMembers(members: readonly Node[], source: Source, depth: number): Shape {
  const entries: [string, Shape][] = [];
  for (const member of members) {
    const isMethod = member.type === 'TSMethodSignature' || member.type === 'MethodDefinition';
    const key =
      'key' in member && member.key
        ? keyOf(member.key as Node, 'computed' in member && member.computed === true)
        : undefined;
    if (key === undefined || key === 'toJSON') return unknownShape;
    if (isMethod && 'kind' in member && member.kind === 'constructor') {
      const held = member.type === 'MethodDefinition' && isFunction(member.value) ? member.value.params : [];
      for (const each of held) {
        if (each.type !== 'TSParameterProperty') continue;
        const target = each.parameter.type === 'AssignmentPattern' ? each.parameter.left : each.parameter;
        if (target.type !== 'Identifier') return unknownShape;
        const type = annotationOf(target);
        entries.push([target.name, type ? shapeOfType(type, source, depth + 1) : unknownShape]);
      }
    }
    if (isMethod) continue;
    const type = annotationOf(member);
    entries.push([key, type ? shapeOfType(type, source, depth + 1) : unknownShape]);
  }
  return { type: ['object'], properties: propertiesOf(entries), isClosed: true };
}
