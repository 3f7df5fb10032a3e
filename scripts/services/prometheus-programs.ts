import { copyFile, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { cacheFolder, ensureFolder } from './cache.ts';
import { runCommand } from './commands.ts';

// The tag v0.315.0 is how Go names Prometheus 3.15.
const VERSION = 'v0.315.0';
const MODULE = 'github.com/prometheus/prometheus';
const FETCH_TIMEOUT_MS = 2 * 60_000;
const BUILD_TIMEOUT_MS = 9 * 60_000;

const programs = ['promtool', 'prometheus'] as const;

/** Paths of Prometheus' own checker, and of the server. */
export type PrometheusPrograms = Readonly<Record<(typeof programs)[number], string>>;

export interface PrometheusOptions {
  /** Build them with Go where they cannot be had otherwise: 3 to 7 minutes, 2.6 GB of memory, once. Default true. */
  readonly build?: boolean;
  readonly log?: (line: string) => void;
}

/**
 * The programs of Prometheus: what was fetched or built before, else those in Debian's package, else those of the PATH, else
 * built with Go now. `null` when there are none of them.
 */
export async function ensurePrometheus(options: PrometheusOptions = {}): Promise<PrometheusPrograms | null> {
  const log = options.log ?? (() => {});
  const attempts: [string, (folder: string) => Promise<void>][] = [
    ['prometheus-debian', (folder) => unpackDebianPackage(folder, log)],
  ];
  const onPath = await Promise.all(
    programs.map(async (name) => (await runCommand(name, ['--version'], { timeoutMs: 20_000 })).code === 0),
  );
  const isOnPath = onPath.every(Boolean);
  if (!isOnPath) attempts.push([`prometheus-${VERSION}`, (folder) => build(folder, options.build, log)]);
  for (const [name, make] of attempts) {
    try {
      const folder = await ensureFolder(cacheFolder(name), make);
      return { promtool: join(folder, 'promtool'), prometheus: join(folder, 'prometheus') };
    } catch (error) {
      log(`prometheus: ${(error as Error).message}`);
    }
  }
  return isOnPath ? { promtool: 'promtool', prometheus: 'prometheus' } : null;
}

/** Fetched and unpacked, not installed: 19 MB, about 2 seconds, and no rights but those of the folder. */
async function unpackDebianPackage(folder: string, log: (line: string) => void): Promise<void> {
  const run = async (program: string, ...args: string[]) =>
    (await runCommand(program, args, { cwd: folder, timeoutMs: FETCH_TIMEOUT_MS })).code === 0;
  if (!(await run('dpkg-deb', '--version'))) throw new Error('this is no Debian or Ubuntu');
  const download = () => run('apt-get', 'download', 'prometheus');
  // A new machine has no list of packages yet, or an old one; only root can renew it.
  if (!(await download()) && !((await run('apt-get', 'update')) && (await download())))
    throw new Error('apt-get could not download the package prometheus');
  const archive = (await readdir(folder)).find((file) => file.endsWith('.deb'));
  if (archive === undefined || !(await run('dpkg-deb', '-x', archive, 'unpacked')))
    throw new Error('dpkg-deb could not unpack the package prometheus');
  for (const name of programs)
    await copyFile(join(folder, 'unpacked', 'usr', 'bin', name), join(folder, name));
  await Promise.all([archive, 'unpacked'].map((name) => rm(join(folder, name), { recursive: true })));
  log('prometheus: taken from the Debian package');
}

async function build(
  folder: string,
  isWanted: boolean | undefined,
  log: (line: string) => void,
): Promise<void> {
  if (isWanted === false) throw new Error('not built with Go yet');
  if ((await runCommand('go', ['version'], { timeoutMs: 20_000 })).code !== 0)
    throw new Error('there is no Go');
  log('prometheus: building it with Go (3 to 7 minutes, once)');
  // In a module of its own: `go install` refuses Prometheus because of the replacements in its go.mod.
  const source = join(folder, 'source');
  await ensureFolder(source, (temporary) =>
    writeFile(join(temporary, 'go.mod'), 'module tools\n\ngo 1.26.0\n'),
  );
  const env = { ...process.env, GOFLAGS: '-buildvcs=false -mod=mod' };
  for (const args of [
    ['get', `${MODULE}@${VERSION}`],
    ...programs.map((name) => ['build', '-o', name, `${MODULE}/cmd/${name}`]),
  ]) {
    const { code } = await runCommand('go', args, { cwd: source, env, timeoutMs: BUILD_TIMEOUT_MS });
    if (code !== 0) throw new Error(`go ${args[0]} failed (${code ?? 'time-out'})`);
  }
  for (const name of programs) await rename(join(source, name), join(folder, name));
  await rm(source, { recursive: true, force: true });
  log('prometheus: built');
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const found = await ensurePrometheus({ log: (line) => console.error(line) });
  if (found === null) process.exitCode = 3;
  else console.log(`${found.promtool}\n${found.prometheus}`);
}
