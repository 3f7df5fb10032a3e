import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
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
  const wanted = JSON.stringify(dependencies);
  return once('packed', name, [readFileSync(tarball), wanted], (folder) => {
    // What npm makes of the manifests is the same for each build of svc: its files are all that is exchanged.
    const manifest = execFileSync('tar', ['-xOf', tarball, 'package/package.json']);
    link(
      once('packed-trees', name, [manifest, wanted], (tree) => install(tree, name, dependencies)),
      folder,
    );
    const svc = join(folder, 'node_modules', 'svc');
    // What it depends on in another version than the application does lies within it.
    for (const entry of readdirSync(svc).filter((each) => each !== 'node_modules'))
      rmSync(join(svc, entry), { recursive: true });
    execFileSync('tar', ['-xf', tarball, '-C', svc, '--strip-components=1']);
    // npm goes by its list of the tree only where nothing there is newer.
    utimesSync(join(folder, 'node_modules', '.package-lock.json'), new Date(), new Date());
  });
}

function install(folder: string, name: string, dependencies: Dependencies): void {
  mkdirSync(folder);
  const manifest = { name, private: true, dependencies: { ...dependencies, svc: `file:${pack()}` } };
  writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest, null, 2));
  const args = ['install', '--no-audit', '--no-fund', '--no-package-lock', '--loglevel=error'];
  try {
    npm(folder, ...args, '--prefer-offline');
  } catch {
    // What npm remembers of a package may be older than what another one asks for.
    npm(folder, ...args);
  }
}

/** The folder below `kind` that is made out of this content; `make` makes it, unless it is there. */
function once(
  kind: string,
  name: string,
  content: readonly (string | Buffer)[],
  make: (folder: string) => void,
): string {
  const hash = createHash('sha256');
  for (const part of content) hash.update(part);
  const folder = join(cache, kind, `${name}-${hash.digest('hex').slice(0, 16)}`);
  if (existsSync(folder)) {
    utimesSync(folder, new Date(), new Date());
    return folder;
  }
  prune(kind, name);
  mkdirSync(join(cache, kind), { recursive: true });
  const making = `${folder}.${process.pid}`;
  make(making);
  try {
    renameSync(making, folder);
  } catch {
    rmSync(making, { recursive: true, force: true }); // Another run was quicker.
  }
  return folder;
}

/** A tree of folders with the same files, not copies of them: nobody writes into the packages of an application. */
function link(from: string, to: string): void {
  mkdirSync(to);
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (entry.isDirectory()) link(source, target);
    else if (entry.isSymbolicLink()) symlinkSync(readlinkSync(source), target);
    else linkSync(source, target);
  }
}

const unusedMs = 60 * 60_000;

/** Removes the same application with other builds of svc, once nobody has used them for an hour: each may take 100 MB. */
function prune(kind: string, name: string): void {
  const parent = join(cache, kind);
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
