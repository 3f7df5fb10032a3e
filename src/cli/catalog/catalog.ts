// catalog/: `svc catalog`: makes, checks and learns the catalog.

import { resolve } from 'node:path';
import { CatalogError, readCatalog } from '../../catalog/catalog-file.ts';
import { filesOf, outdated, writeFolder } from '../../catalog/catalog-folder.ts';
import { changesBetween } from '../../catalog/changes.ts';
import { declaredTypes } from '../../catalog/declared/declared-events.ts';
import { madeCatalog } from '../../catalog/made-catalog.ts';
import { printable, printableJson } from '../../observe/printable.ts';
import { program, WrongUse } from '../wrong-use.ts';
import { counted, lineOf, noteOfUnknown, type Places, placesOf, say, shown } from './places.ts';
import { runWatch, type WatchOptions } from './watch.ts';

export interface CatalogOptions extends WatchOptions {
  readonly config?: string;
  readonly json?: true;
  readonly dir?: string;
  readonly check?: true;
  readonly against?: string;
  readonly watch?: true;
}

/**
 * `svc catalog`. Exit codes: 0 written, or with `--check` nothing breaks consumers; 1 something does, or the catalog cannot be made.
 *
 * @throws WrongUse
 */
export async function runCatalog(options: CatalogOptions): Promise<number> {
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
  if (check && watch) throw new WrongUse('--check and --watch do not go together: --watch writes');
  if (against !== undefined && !check) throw new WrongUse('--against goes with --check');
  for (const name of ['since', 'until', 'topic', 'broker'] as const)
    if (others[name] !== undefined && !watch) throw new WrongUse(`--${name} goes with --watch`);
}

function write({ json }: CatalogOptions, { config, folder, before = new Map() }: Places): number {
  const declared = declaredTypes(config);
  const { unknown } = declared;
  const catalog = madeCatalog(declared, config, before);
  const files = filesOf(catalog, config.baseDir);
  const changes = changesBetween(before, catalog);
  const written = writeFolder(folder, files, before);
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
  const old = outdated(folder, filesOf(catalog, config.baseDir));
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
      : `${counted(breaking, 'change')} can break consumers: keep what they read, or publish a new event type`,
    ...(old.length > 0 ? [`${shown(folder)} is not up to date: ${program} catalog writes it`] : []),
    ...noteOfUnknown(unknown),
  ]);
  return code;
}

function nothingToCompare(against: string | undefined, folder: string): string {
  if (against !== undefined) return `${against} is not there`;
  return `there is no catalog in ${shown(folder)} yet: ${program} catalog makes it`;
}
