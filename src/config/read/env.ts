import { nearestName } from '../../ground/nearest-names.ts';
import type { Setting, Settings } from '../check/flatten.ts';
import type { Problem } from '../check/problem.ts';
import { type Option, variableOf } from '../schema/option.ts';
import { options, targetsName } from '../schema/schema.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

/** Names the configuration file, so it is no option. */
export const fileVariable = 'SVC_CONFIG';

/** The settings that stand in environment variables. An empty variable counts as not set. */
export function readEnvironment(env: Environment): Settings & { readonly warnings: readonly Problem[] } {
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
 * What variables say that are the application's as well. They count where nothing else gives a value, and are looked at only
 * where the option is in use: elsewhere their form is no concern of svc.
 */
export function readShared(env: Environment, settings: ReadonlyMap<string, Setting>): Setting[] {
  return options.flatMap((option) => {
    const { name, shared } = option;
    const text = shared && env[shared.variable];
    if (shared === undefined || !isSet(text) || settings.has(name)) return [];
    if (settings.get(shared.switch)?.value !== true) return [];
    return [settingOf(name, shared.variable, parseText(option, text ?? ''))];
  });
}

/** True when a variable of svc's own says something: KAFKA_BROKERS and MANAGEMENT_… are others' as well, and do not ask for svc. */
export function asksForSvc(env: Environment): boolean {
  const own = options.map((option) => option.name).filter((name) => name.startsWith('svc.'));
  return [...own, targetsName].some((name) => isSet(env[variableOf(name)]));
}

function settingOf(name: string, variable: string, value: unknown): Setting {
  const where = () => `environment variable ${variable}`;
  return { name, value, where, whereItem: where };
}

function isSet(text: string | undefined): boolean {
  return text !== undefined && text.trim() !== '';
}

/** What cannot be read as the type that is asked for stays a string, and the check names it. */
function parseText(option: Option, text: string): unknown {
  // A line end is what `echo secret > file` leaves behind; other spaces may belong to a password.
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

/** Other software may own a variable that begins alike, so only what is very near to a known name is worth a line. */
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
