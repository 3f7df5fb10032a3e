import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cacheFolder, ensureFolder } from '../../../scripts/services/cache.ts';
import { runCommand } from '../../../scripts/services/commands.ts';

const others = { pnpm: '12.21.0', '@yarnpkg/cli-dist': '4.18.1' } as const;
const timeoutMs = 150_000;

/** What a package manager makes of an application's dependencies. */
export interface Resolved {
  /** Conflicts and warnings about peer dependencies, in its own words. */
  readonly complaints: string;
  /** Versions of `@opentelemetry/api` in the tree. */
  readonly apis: readonly string[];
}

/** Resolves the package.json of a folder as strictly as the package manager can, and installs nothing. */
type Resolve = (folder: string) => Promise<Resolved>;

export const packageManagers: Readonly<Record<string, Resolve>> = {
  npm: async (folder) => {
    const args = [
      'install',
      '--package-lock-only',
      '--strict-peer-deps',
      '--prefer-offline',
      '--no-audit',
      '--no-fund',
    ];
    // npm warns of its own configuration, too.
    const output = await run(folder, 'npm', args);
    const complaints = lines(output, /^npm (?:error|warn) .*(?:ERESOLVE|peer|deprecated svc)/i);
    return { complaints, apis: await inLock(folder, 'package-lock.json', npmApi) };
  },
  pnpm: async (folder) => {
    const args = ['install', '--lockfile-only', '--ignore-workspace', '--strict-peer-dependencies'];
    const output = await runOther(folder, ['pnpm', 'bin/pnpm.mjs'], args);
    return {
      complaints: lines(output, /peer|warn/i),
      apis: await inLock(folder, 'pnpm-lock.yaml', /^ {2}'@opentelemetry\/api@([\d.]+)'/gm),
    };
  },
  yarn: async (folder) => {
    const yarn = ['@yarnpkg/cli-dist', 'bin/yarn.js'] as const;
    await writeFile(join(folder, 'yarn.lock'), ''); // A project of its own, and none of this checkout.
    const output = await runOther(folder, yarn, ['install', '--mode=update-lockfile']);
    const peers = await runOther(folder, yarn, ['explain', 'peer-requirements']);
    return {
      complaints: lines(`${output}\n${peers}`, /YN0002|YN0060|YN0086|Error|✘/),
      apis: await inLock(folder, 'yarn.lock', yarnApi),
    };
  },
};

const npmApi = /"node_modules\/(?:.*\/)?@opentelemetry\/api": \{\s+"version": "([\d.]+)"/g;
/** Without the one that `@opentelemetry/api-logs` 0.223 has as a dependency, and gets from yarn with svc or without it. */
const yarnApi = /^"@opentelemetry\/api@npm:(?!\^1\.3\.0").*\n {2}version: ([\d.]+)$/gm;

async function inLock(folder: string, file: string, version: RegExp): Promise<string[]> {
  const text = await readFile(join(folder, file), 'utf8').catch(() => '');
  return [...new Set([...text.matchAll(version)].map(([, found = '']) => found))];
}

const lines = (output: string, complaint: RegExp): string =>
  output
    .split('\n')
    .filter((line) => complaint.test(line))
    .join('\n');

/** Of the way to the registry, which says nothing of the tree. */
const connectionLost = /ERR_SOCKET|ECONNRESET|ETIMEDOUT|EAI_AGAIN/;
const tries = 3;

async function run(cwd: string, program: string, args: readonly string[], env = {}): Promise<string> {
  for (let left = tries - 1; ; left--) {
    const { stdout, stderr } = await runCommand(program, [...args], {
      cwd,
      timeoutMs,
      env: { ...process.env, ...env },
    });
    const output = `${stdout}\n${stderr}`;
    if (left === 0 || !connectionLost.test(output)) return output;
  }
}

/** One that npm fetches into the cache, where it keeps what it fetches itself; the registry is npm's. */
async function runOther(
  cwd: string,
  [name, file]: readonly [keyof typeof others, string],
  args: readonly string[],
): Promise<string> {
  const folder = await ensureFolder(
    cacheFolder(`package-managers-${Object.values(others).join('-')}`),
    fetchAll,
  );
  registry ??= (await runCommand('npm', ['config', 'get', 'registry'], { cwd, timeoutMs })).stdout
    .toString()
    .trim();
  const data = join(folder, 'data');
  return run(cwd, process.execPath, [join(folder, 'node_modules', name, file), ...args], {
    npm_config_registry: registry,
    ...{ XDG_CACHE_HOME: data, XDG_DATA_HOME: data, XDG_STATE_HOME: data },
    ...{ YARN_NPM_REGISTRY_SERVER: registry, YARN_GLOBAL_FOLDER: data, YARN_ENABLE_TELEMETRY: '0' },
    // It is what yarn takes for granted where CI is set.
    YARN_ENABLE_IMMUTABLE_INSTALLS: 'false',
  });
}

let registry: string | undefined;

async function fetchAll(folder: string): Promise<void> {
  const packages = Object.entries(others).map(([name, version]) => `${name}@${version}`);
  const args = ['install', '--prefix', folder, '--ignore-scripts', '--no-audit', '--no-fund', ...packages];
  const { code, stderr } = await runCommand('npm', args, { cwd: folder, timeoutMs });
  if (code !== 0) throw new Error(`npm could not fetch ${packages.join(' and ')}: ${stderr}`);
}
