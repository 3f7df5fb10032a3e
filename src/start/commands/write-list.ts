import { existsSync, readdirSync, realpathSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { listPlaces } from '../../capture/source/inspect-built.ts';
import { listName, type PlaceList } from '../../capture/source/listed-places.ts';
import type { SourceTarget } from '../../capture/source/rewrite-text.ts';
import { locate, missingFile, shownPath } from '../../capture/source/target-files.ts';
import type { Config } from '../../config/config.ts';
import { loadConfig } from '../../config/read/load.ts';
import { isFile } from '../../ground/files.ts';
import { printable } from '../../observe/logger.ts';

/** The result of `svc manifest`. */
interface WrittenList {
  readonly file: string;
  /** Targets by id, with the built files that contain them. `reason`: why a target is in no file. */
  readonly targets: readonly {
    readonly id: string;
    readonly files: readonly string[];
    readonly reason?: string;
  }[];
}

/** Writes the list of places beside the configuration. `searched`: absolute, built files and folders of them. */
export function writeList({ targets, baseDir }: Config, searched: readonly string[]): WrittenList {
  const built = searched.flatMap((each) => (isFile(each) ? [realpathSync(each)] : scriptsBelow(each)));
  const pending = new Map<string, SourceTarget[]>();
  const ids: string[] = [];
  for (const { id, module, function: functionPath } of targets) {
    const located = locate(module, baseDir);
    const missing = missingFile(module, baseDir);
    const paths = 'paths' in located ? located.paths : missing === undefined ? [] : [missing];
    if (paths.length > 0) ids.push(id);
    for (const path of paths) pending.set(path, [...(pending.get(path) ?? []), { id, functionPath }]);
  }
  const reasons = new Map<string, string>();
  const list = listPlaces(pending, built, searched, baseDir, {
    found: () => true,
    problem: (id, reason) => void reasons.set(id, reason),
    unreadMap: (file, reason) => {
      for (const id of ids)
        reasons.set(id, `the source map of ${shownPath(file, baseDir)} is not used: ${reason}`);
    },
  });
  const file = join(baseDir, listName);
  writeFileSync(file, `${JSON.stringify(list)}\n`);
  const filesOf = (id: string) =>
    Object.entries(list.files).flatMap(([path, each]) =>
      each.targets.some((target) => target.id === id) ? [`./${path}`] : [],
    );
  return {
    file,
    targets: ids.map((id) => {
      const reason = reasons.get(id);
      const files = filesOf(id);
      return { id, files, ...(files.length === 0 && { reason: reason ?? 'in no JavaScript that was read' }) };
    }),
  };
}

/** Writes an empty list if the file does not exist: bundlers look for the files to copy before the build has ended. */
export function reserveList(directory: string): void {
  const file = join(directory, listName);
  const empty: PlaceList = { version: 1, searched: [], files: {} };
  if (!existsSync(file)) writeFileSync(file, `${JSON.stringify(empty)}\n`);
}

/** Writes the list at the end of a build. Never throws: the build goes on. */
export function writeListOf(directory: string, searched: readonly string[]): void {
  try {
    const { config } = loadConfig({ cwd: directory, code: { svc: { enabled: true } } });
    if (config.file === undefined || config.targets.length === 0) return;
    for (const { id, reason } of writeList(config, searched).targets)
      if (reason !== undefined) process.stderr.write(`svc: target ${printable(id)}: ${printable(reason)}\n`);
  } catch (error) {
    process.stderr.write(`svc: ${listName} is not written: ${printable((error as Error).message)}\n`);
  }
}

/** JavaScript below a folder, without packages. Empty if the folder does not exist. */
export function scriptsBelow(folder: string): string[] {
  try {
    return readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((file) => /\.[cm]?js$/.test(file) && !/(^|[\\/])node_modules[\\/]/.test(file))
      .map((file) => realpathSync(join(folder, file)));
  } catch {
    return [];
  }
}
