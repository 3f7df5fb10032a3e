// read/: reads file, environment and code into one configuration.

import { dirname, parse, resolve } from 'node:path';
import { usualClient } from '../../ground/management.ts';
import type { PathRule } from '../../ground/pii-rule.ts';
import { checkAcrossOptions } from '../check/across.ts';
import { type AroundTargets, checkTargets, type TargetProblem } from '../check/targets.ts';
import {
  flatten,
  kindOfError,
  type Problem,
  type RawPath,
  type Setting,
  type Settings,
  type Values,
  validate,
} from '../check/validate.ts';
import type { Config, OptionValues } from '../config.ts';
import { camelCase, type Option, optionNamed, options, targetsName, variableOf } from '../schema/schema.ts';
import type { TargetConfig } from '../schema/target.ts';
import {
  asksForSvc,
  displayPath,
  type Environment,
  type FoundFile,
  fileVariable,
  findFile,
  notFoundMessage,
  readEnvironment,
  readFile,
  readShared,
} from './read-file.ts';

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
  readonly targetProblems: readonly TargetProblem[];
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

  const settings = new Map<string, Setting>([
    ...(file?.settings.settings ?? []),
    ...environment.settings,
    ...(code?.settings ?? []),
  ]);
  for (const setting of readShared(env, settings)) settings.set(setting.name, setting);
  const baseDir = found === undefined ? cwd : dirname(found.path);
  const validated = validate(settings);
  const isPiiOn = validated.values.get('svc.pii.enabled') !== false;
  const fields = isPiiOn ? (validated.values.get('svc.pii.fields') as readonly PathRule[]) : [];
  const isOutboxOn = validated.values.get('svc.outbox.enabled') === true;
  const targets = checkTargetsSafely(settings.get(targetsName), { fields, isOutboxOn });
  const isOn = isFound && validated.values.get('svc.enabled') !== false;
  // Without a readable file, "topic is required" would hide the actual error.
  const across =
    isOn && file?.isReadable !== false
      ? checkAcrossOptions(
          { ...validated, settings, baseDir, env, rules: options.rules ?? [] },
          targets.targets,
        )
      : undefined;
  return {
    found: isFound,
    notFound: isFound ? undefined : notFoundMessage(cwd),
    config: buildConfig({
      values: validated.values,
      targets: targets.targets,
      baseDir,
      file: found?.path,
    }),
    isGiven: (name) => settings.has(name),
    isReadable: file?.isReadable !== false,
    problems: [
      ...(file?.settings.problems ?? []),
      ...environment.problems,
      ...(code?.problems ?? []),
      ...validated.problems,
      ...targets.problems,
      ...(across?.problems ?? []),
    ],
    warnings: [
      ...(file?.warnings ?? []),
      ...environment.warnings,
      ...targets.warnings,
      ...(across?.warnings ?? []),
    ],
    targetProblems: targets.targetProblems,
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

/** Objects from code may have getters that throw. */
function flattenSafely(root: object, where: (path: RawPath) => string, name: string): Settings {
  try {
    return flatten(root, where);
  } catch (error) {
    return { settings: new Map(), problems: [unreadable(name, error)] };
  }
}

function checkTargetsSafely(
  setting: Setting | undefined,
  around: AroundTargets,
): ReturnType<typeof checkTargets> {
  try {
    return checkTargets(setting, around);
  } catch (error) {
    return { targets: [], targetProblems: [], warnings: [], problems: [unreadable(targetsName, error)] };
  }
}

function unreadable(name: string, error: unknown): Problem {
  return { name, message: `cannot be read: ${kindOfError(error)}`, fix: 'Use plain objects and values' };
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
  readonly values: Values;
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

function finish(option: Option, values: Values, baseDir: string): unknown {
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
