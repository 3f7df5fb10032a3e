import { relative, resolve } from 'node:path';
import { type Catalog, CatalogError, catalogFileName, readCatalog } from '../../catalog/catalog-file.ts';
import type { Change } from '../../catalog/changes.ts';
import { formatProblem, type Problem } from '../../config/check/problem.ts';
import type { Config } from '../../config/config.ts';
import { loadConfig } from '../../config/read/load.ts';
import { optionNamed, targetsName } from '../../config/schema/schema.ts';
import { printable } from '../../observe/printable.ts';
import { program, settingsInCode } from '../wrong-use.ts';

/** What a run of `svc catalog` works on. */
export interface Places {
  readonly config: Config;
  readonly folder: string;
  /** `undefined`: there is none yet. */
  readonly before: Catalog | undefined;
}

/** Enough to begin with. */
const mostPlaces = 5;
const defaultFolder = 'event-catalog';

/** @throws CatalogError */
export function placesOf({ config: file, dir }: { readonly config?: string; readonly dir?: string }): Places {
  const config = configOf(file);
  const folder = dir === undefined ? resolve(config.baseDir, defaultFolder) : resolve(dir);
  return { config, folder, before: readCatalog(resolve(folder, catalogFileName)) };
}

/** With all that says which events there are: a target that is left out would look like one that is gone. */
export function configOf(file: string | undefined): Config {
  const { config, problems, targetProblems, notFound } = loadConfig({ file });
  if (notFound !== undefined) throw new CatalogError(`${notFound} ${settingsInCode}`);
  const wrong = [...problems.filter(isInTheWay), ...targetProblems.flatMap((each) => each.problems)];
  if (wrong.length === 0) return config;
  const more = wrong.length > mostPlaces ? [`and ${wrong.length - mostPlaces} more: ${program} check`] : [];
  throw new CatalogError([...wrong.slice(0, mostPlaces).map(formatProblem), ...more].join('; '));
}

/** Brokers, keys and databases of a running application are no matter here. */
function isInTheWay({ name }: Problem): boolean {
  return name === 'svc.broker.topic' || name === targetsName || optionNamed(name) === undefined;
}

/** A line for people about what reading does not find. */
export function noteOfUnknown(unknown: readonly string[]): string[] {
  if (unknown.length === 0) return [];
  const more = unknown.length > mostPlaces ? ` and ${unknown.length - mostPlaces} more` : '';
  return [
    `event type or topic known at run time only: ${unknown.slice(0, mostPlaces).join(', ')}${more}; ${program} catalog --watch finds them in the topics`,
  ];
}

export const counted = (count: number, what: string): string => `${count} ${what}${count === 1 ? '' : 's'}`;

export const shown = (folder: string): string => relative(process.cwd(), folder) || '.';

/** A change, as people read it. */
export function lineOf({ eventType, path, says, breaks }: Change): string {
  const where = path === '' ? eventType : `${eventType} ${path}`;
  return `${breaks ? 'BREAKS' : 'ok    '}  ${printable(`${where}: ${says}`)}\n`;
}

/** On standard error: what is no data. */
export function say(lines: readonly string[]): void {
  process.stderr.write(`${lines.map(printable).join('\n')}\n`);
}
