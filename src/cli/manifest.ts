import { resolve } from 'node:path';
import { loadConfig } from '../config/read/load.ts';
import { printable, printableJson } from '../observe/logger.ts';
import { writeList } from '../start/commands/write-list.ts';
import { builtFiles } from './check-start.ts';
import { settingsInCode } from './wrong-use.ts';

export interface ManifestOptions {
  readonly config?: string;
  readonly json?: true;
}

/** `svc manifest`: the list of places that a production start reads instead of source maps and the text of modules. */
export async function runManifest(options: ManifestOptions, paths: readonly string[]): Promise<number> {
  const { config, notFound } = loadConfig({ file: options.config });
  if (notFound !== undefined) {
    process.stderr.write(`svc: ${notFound} ${settingsInCode}\n`);
    return 1;
  }
  // A path without any is a wrong use.
  builtFiles(paths);
  const { file, targets } = writeList(
    config,
    paths.map((each) => resolve(each)),
  );
  const isWell = targets.every(({ files }) => files.length > 0);
  if (options.json) {
    process.stdout.write(`${printableJson({ ok: isWell, file, targets }, 2)}\n`);
    return isWell ? 0 : 1;
  }
  const found = targets.filter(({ files }) => files.length > 0).length;
  const lines = targets.map(({ id, files, reason }) =>
    files.length > 0 ? `  listed     ${id}  ${files.join(', ')}` : `  NOT FOUND  ${id}  ${reason}`,
  );
  const head = `${file}: ${found} of ${targets.length} targets`;
  process.stdout.write(`${[head, ...lines].map(printable).join('\n')}\n`);
  return isWell ? 0 : 1;
}
