import { realpathSync } from 'node:fs';

/** Packages whose commands only start other processes, or build. */
const launchers = [
  'npm',
  'pnpm',
  'yarn',
  'corepack',
  'tsx',
  'nodemon',
  'cross-env',
  'concurrently',
  'npm-run-all',
  'dotenv-cli',
  '@nestjs/cli',
  'next',
  'pm2',
  'typescript',
  'vite',
];

/** Where one of them runs the application in its own process: the file and its first argument. */
const applications: readonly RegExp[] = [
  /\/next\/dist\/bin\/next start$/,
  /\/next\/dist\/server\/lib\/start-server\.js /,
  /\/pm2\/lib\/ProcessContainer\w*\.js /,
  // Its servers run what SvelteKit, Nuxt and others make for the server.
  /\/vite\/bin\/vite\.js (?!build$|optimize$)/,
];

/** Runs PostCSS and the like, in `next dev` and `next build`. */
const turbopackWorker = '/build/chunks/[^/]*\\[turbopack-node\\]';

const launcherPath = new RegExp(
  `/node_modules/(?:${launchers.join('|')})/|/corepack/v\\d+/|/\\.yarn/releases/|${turbopackWorker}`,
);

/**
 * True where Node runs a package manager or another tool that only starts processes: `NODE_OPTIONS` reaches these too, and
 * svc in them would take the management port of the application that they start. `argv`: as `process.argv`.
 */
export function isLauncher([, entry, ...args]: readonly (string | undefined)[]): boolean {
  if (entry === undefined) return false;
  const file = realPath(entry).replaceAll('\\', '/');
  if (!launcherPath.test(file)) return false;
  const command = args.find((arg) => arg?.startsWith('-') === false) ?? '';
  return !applications.some((each) => each.test(`${file} ${command}`));
}

/** Commands are links to their script. */
function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}
