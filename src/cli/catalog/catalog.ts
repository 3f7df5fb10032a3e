// catalog/: `svc catalog`: makes, checks and learns the catalog.

import { relative, resolve } from 'node:path';
import { type Catalog, CatalogError, catalogFileName, readCatalog } from '../../catalog/catalog-file.ts';
import { filesOf, outdated, writeFolder } from '../../catalog/catalog-folder.ts';
import { type Change, changesBetween } from '../../catalog/changes.ts';
import { madeCatalog } from '../../catalog/made-catalog.ts';
import { formatProblem, type Problem } from '../../config/check/problem.ts';
import type { Config } from '../../config/config.ts';
import { loadConfig } from '../../config/read/load.ts';
import { optionNamed, targetsName } from '../../config/schema/schema.ts';
import { printable, printableJson } from '../../observe/printable.ts';
import { program, settingsInCode, WrongUse } from '../wrong-use.ts';

export interface CatalogOptions {
  readonly config?: string;
  readonly json?: true;
  readonly dir?: string;
  readonly check?: true;
  readonly against?: string;
}

const defaultFolder = 'event-catalog';

/**
 * `svc catalog`. Exit codes: 0 written, or with `--check` nothing breaks consumers; 1 something does, or the catalog cannot be made.
 *
 * @throws WrongUse
 */
export async function runCatalog(options: CatalogOptions): Promise<number> {
  if (options.against !== undefined && !options.check) throw new WrongUse('--against goes with --check');
  try {
    const config = configOf(options);
    const folder = options.dir === undefined ? resolve(config.baseDir, defaultFolder) : resolve(options.dir);
    const before = readCatalog(resolve(folder, catalogFileName));
    return options.check ? check(options, config, folder, before) : write(options, config, folder, before);
  } catch (error) {
    if (!(error instanceof CatalogError)) throw error;
    if (options.json) process.stdout.write(`${printableJson({ ok: false, problem: error.message }, 2)}\n`);
    else process.stderr.write(`svc: ${printable(error.message)}\n`);
    return 1;
  }
}

/** With all that says which events there are: a target that is left out would look like one that is gone. */
function configOf({ config: file }: CatalogOptions): Config {
  const { config, problems, targetProblems, notFound } = loadConfig({ file });
  if (notFound !== undefined) throw new CatalogError(`${notFound} ${settingsInCode}`);
  const wrong = [...problems.filter(isInTheWay), ...targetProblems.flatMap((each) => each.problems)];
  if (wrong.length > 0) throw new CatalogError(wrong.map(formatProblem).join('; '));
  return config;
}

/** Brokers, keys and databases of a running application are no matter here. */
function isInTheWay({ name }: Problem): boolean {
  return name === 'svc.broker.topic' || name === targetsName || optionNamed(name) === undefined;
}

function write(options: CatalogOptions, config: Config, folder: string, before: Catalog | undefined): number {
  const { catalog, unknown } = madeCatalog(config, before ?? new Map());
  const files = filesOf(catalog, config.baseDir);
  const changes = changesBetween(before ?? new Map(), catalog);
  const written = writeFolder(folder, files, before ?? new Map());
  if (options.json) {
    const document = { ok: true, folder, eventTypes: [...catalog.keys()], changes, written, unknown };
    process.stdout.write(`${printableJson(document, 2)}\n`);
    return 0;
  }
  if (before !== undefined) process.stdout.write(changes.map(lineOf).join(''));
  const breaking = changes.filter(({ breaks }) => breaks).length;
  const lines = [
    `${shown(folder)}: ${counted(catalog.size, 'event type')}, ${counted(written.length, 'file')} written`,
    ...(breaking > 0 ? [`${counted(breaking, 'change')} can break consumers`] : []),
    ...notes(unknown),
  ];
  process.stderr.write(`${lines.map(printable).join('\n')}\n`);
  return 0;
}

function check(options: CatalogOptions, config: Config, folder: string, own: Catalog | undefined): number {
  const { against, json } = options;
  const before = against === undefined ? own : readCatalog(resolve(against));
  if (before === undefined)
    throw new CatalogError(
      against === undefined
        ? `there is no catalog in ${shown(folder)} yet: ${program} catalog makes it`
        : `${against} is not there`,
    );
  const { catalog, unknown } = madeCatalog(config, own ?? new Map());
  const changes = changesBetween(before, catalog);
  const old = outdated(folder, filesOf(catalog, config.baseDir));
  const breaking = changes.filter(({ breaks }) => breaks).length;
  if (json) {
    const document = {
      ok: breaking === 0,
      folder,
      eventTypes: [...catalog.keys()],
      changes,
      outdated: old,
      unknown,
    };
    process.stdout.write(`${printableJson(document, 2)}\n`);
    return breaking === 0 ? 0 : 1;
  }
  process.stdout.write(changes.map(lineOf).join(''));
  const lines = [
    breaking === 0
      ? `${counted(catalog.size, 'event type')}: nothing breaks consumers`
      : `${counted(breaking, 'change')} can break consumers: keep what they read, or publish a new event type`,
    ...(old.length > 0 ? [`${shown(folder)} is not up to date: ${program} catalog writes it`] : []),
    ...notes(unknown),
  ];
  process.stderr.write(`${lines.map(printable).join('\n')}\n`);
  return breaking === 0 ? 0 : 1;
}

function lineOf({ eventType, path, says, breaks }: Change): string {
  const where = path === '' ? eventType : `${eventType} ${path}`;
  return `${breaks ? 'BREAKS' : 'ok    '}  ${printable(`${where}: ${says}`)}\n`;
}

const mostPlaces = 5;

function notes(unknown: readonly string[]): string[] {
  if (unknown.length === 0) return [];
  const more = unknown.length > mostPlaces ? ` and ${unknown.length - mostPlaces} more` : '';
  return [
    `event type or topic known at run time only: ${unknown.slice(0, mostPlaces).join(', ')}${more}; ${program} catalog --watch finds them in the topics`,
  ];
}

const counted = (count: number, what: string): string => `${count} ${what}${count === 1 ? '' : 's'}`;

const shown = (folder: string): string => relative(process.cwd(), folder) || '.';
