import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '../..');
const cache = process.env.SVC_CACHE ?? join(root, '.cache');

/** The dependencies of one application of the tests, beside svc itself. */
export type Dependencies = Readonly<Record<string, string>>;

/**
 * An application folder in which svc is installed the way a user gets it: packed by npm and installed from the tarball.
 * Made once per content and kept in the cache; tests put their files into folders of their own below it.
 * Run `npm run build` first.
 */
export function installPacked(name: string, dependencies: Dependencies = {}): string {
  const tarball = pack();
  const key = createHash('sha256')
    .update(readFileSync(tarball))
    .update(JSON.stringify(dependencies))
    .digest('hex')
    .slice(0, 16);
  const folder = join(cache, 'packed', `${name}-${key}`);
  if (existsSync(folder)) {
    utimesSync(folder, new Date(), new Date());
    return folder;
  }
  prune(name);
  const making = `${folder}.${process.pid}`;
  mkdirSync(making, { recursive: true });
  const manifest = { name, private: true, dependencies: { ...dependencies, svc: `file:${tarball}` } };
  writeFileSync(join(making, 'package.json'), JSON.stringify(manifest, null, 2));
  npm(
    making,
    'install',
    '--no-audit',
    '--no-fund',
    '--no-package-lock',
    '--prefer-offline',
    '--loglevel=error',
  );
  try {
    renameSync(making, folder);
  } catch {
    rmSync(making, { recursive: true, force: true }); // Another run was quicker.
  }
  return folder;
}

const unusedMs = 60 * 60_000;

/** Removes the same application with other builds of svc, once nobody has used them for an hour: each may take 100 MB. */
function prune(name: string): void {
  const parent = join(cache, 'packed');
  if (!existsSync(parent)) return;
  const own = new RegExp(`^${name}-[0-9a-f]{16}(\\.\\d+)?$`);
  for (const entry of readdirSync(parent).filter((each) => own.test(each))) {
    const folder = join(parent, entry);
    const usedAt = statSync(folder, { throwIfNoEntry: false })?.mtimeMs ?? Date.now();
    if (Date.now() - usedAt > unusedMs) rmSync(folder, { recursive: true, force: true });
  }
}

let packed: string | undefined;

/** The tarball that would be published, made once per process from `dist/`; or the one that `SVC_TARBALL` names. */
export function pack(): string {
  packed ??= process.env.SVC_TARBALL;
  if (packed !== undefined) return packed;
  const target = join(cache, 'packed', `tarball-${process.pid}`);
  mkdirSync(target, { recursive: true });
  const [{ filename }] = JSON.parse(
    npm(root, 'pack', '--json', '--ignore-scripts', '--pack-destination', target),
  ) as [{ filename: string }];
  packed = join(target, filename);
  process.once('exit', () => rmSync(target, { recursive: true, force: true }));
  return packed;
}

function npm(cwd: string, ...args: string[]): string {
  return execFileSync('npm', args, {
    cwd,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
    timeout: 300_000,
  });
}
