import { rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { cacheFolder, ensureFolder } from './cache.ts';
import { runCommand } from './commands.ts';

// The tag v0.315.0 is how Go names Prometheus 3.15.
const VERSION = 'v0.315.0';
const MODULE = 'github.com/prometheus/prometheus';
const BUILD_TIMEOUT_MS = 9 * 60_000;

export interface PromtoolOptions {
  /** Build it with Go when it is not there yet: 3 to 7 minutes, 2.6 GB of memory, once. Default true. */
  readonly build?: boolean;
  readonly log?: (line: string) => void;
}

/**
 * The path of `promtool`, Prometheus' own checker: the one that was built by Go before, else built now, else the one of the
 * PATH. `null` when there is neither.
 */
export async function ensurePromtool(options: PromtoolOptions = {}): Promise<string | null> {
  const log = options.log ?? (() => {});
  const folder = cacheFolder(`promtool-${VERSION}`);
  try {
    await ensureFolder(folder, async (temporary) => {
      if (options.build === false) throw new Error('not built yet');
      await build(temporary, log);
    });
    return join(folder, 'promtool');
  } catch (error) {
    log(`promtool: ${(error as Error).message}`);
  }
  const { code } = await runCommand('promtool', ['--version'], { timeoutMs: 20_000 });
  return code === 0 ? 'promtool' : null;
}

async function build(folder: string, log: (line: string) => void): Promise<void> {
  if ((await runCommand('go', ['version'], { timeoutMs: 20_000 })).code !== 0)
    throw new Error('there is no Go');
  log(`promtool: building it with Go (3 to 7 minutes, once)`);
  // In a module of its own: `go install` refuses Prometheus because of the replacements in its go.mod.
  const source = join(folder, 'source');
  await ensureFolder(source, (temporary) =>
    writeFile(join(temporary, 'go.mod'), 'module tools\n\ngo 1.26.0\n'),
  );
  const env = { ...process.env, GOFLAGS: '-buildvcs=false -mod=mod' };
  for (const args of [
    ['get', `${MODULE}@${VERSION}`],
    ['build', '-o', 'promtool', `${MODULE}/cmd/promtool`],
  ]) {
    const { code } = await runCommand('go', args, { cwd: source, env, timeoutMs: BUILD_TIMEOUT_MS });
    if (code !== 0) throw new Error(`go ${args[0]} failed (${code ?? 'time-out'})`);
  }
  await rename(join(source, 'promtool'), join(folder, 'promtool'));
  await rm(source, { recursive: true, force: true });
  log('promtool: built');
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const path = await ensurePromtool({ log: (line) => console.error(line) });
  if (path === null) process.exitCode = 3;
  else console.log(path);
}
