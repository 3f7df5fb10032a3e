import { existsSync } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { cacheFolder, ensureFolder } from './services/cache.ts';
import { lastLines, runCommand } from './services/commands.ts';

const DOWNLOAD_TIMEOUT_MS = 5 * 60_000;

const HELP = `Usage: node scripts/runtimes.ts <version>...

Fetches Node.js runtimes from npm (about 100 MB each, once) and prints the path of each binary.
A version is exact (22.15.0) or a line (22), which takes the newest of that line at the first time.
They are kept in .cache/runtimes; delete a folder there to fetch it anew.
`;

/**
 * The path of a Node.js binary, fetched from npm the first time and kept. Several processes may ask at once.
 * @param version exact, such as `22.15.0`, or a line, such as `22`: its newest version of the day it was fetched
 */
export async function ensureRuntime(
  version: string,
  log: (line: string) => void = () => {},
): Promise<string> {
  if (!/^\d+(\.\d+){0,2}$/.test(version)) throw new Error(`not a version of Node.js: ${version}`);
  const folder = await ensureFolder(cacheFolder('runtimes', version), (temporary) =>
    download(version, temporary, log),
  );
  return join(folder, binary);
}

const isWindows = process.platform === 'win32';
const binary = isWindows ? 'node.exe' : 'node';

/** The npm package with the binary for this machine: what the npm package `node` installs. */
export function runtimePackage(): string {
  const { platform, arch } = process;
  const prefix = platform === 'darwin' && arch === 'arm64' ? 'node-bin' : 'node';
  return [prefix, isWindows ? 'win' : platform, arch].join('-');
}

async function download(version: string, folder: string, log: (line: string) => void): Promise<void> {
  const name = runtimePackage();
  log(`Node.js ${version}: fetching ${name}`);
  const modules = join(folder, 'download');
  const npm = isWindows ? 'npm.cmd' : 'npm';
  const { code, stderr } = await runCommand(
    npm,
    [
      'install',
      '--prefix',
      modules,
      '--no-save',
      '--no-audit',
      '--no-fund',
      '--ignore-scripts',
      `${name}@${version}`,
    ],
    { timeoutMs: DOWNLOAD_TIMEOUT_MS },
  );
  if (code !== 0) throw new Error(`npm could not fetch ${name}@${version}:\n${lastLines(stderr, 6)}`);
  const fetched = join(modules, 'node_modules', name, 'bin', binary);
  if (!existsSync(fetched)) throw new Error(`${name}@${version} holds no ${binary}`);
  const { stdout } = await runCommand(fetched, ['--version'], { timeoutMs: 20_000 });
  const got = stdout.toString().trim().slice(1);
  if (got !== version && !got.startsWith(`${version}.`)) throw new Error(`asked for ${version}, got ${got}`);
  await rename(fetched, join(folder, binary));
  await rm(modules, { recursive: true, force: true });
  log(`Node.js ${version}: ${got} is ready`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const versions = process.argv.slice(2);
  try {
    if (versions.length === 0 || versions.includes('--help')) process.stdout.write(HELP);
    else
      for (const version of versions)
        console.log(await ensureRuntime(version, (line) => console.error(line)));
  } catch (error) {
    console.error((error as Error).message);
    process.exitCode = 1;
  }
}
