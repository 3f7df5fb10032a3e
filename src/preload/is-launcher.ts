import { realpathSync } from 'node:fs';

/** Packages whose commands only start other processes. */
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
];

const launcherPath = new RegExp(
  `/node_modules/(?:${launchers.join('|')})/|/corepack/v\\d+/|/\\.yarn/releases/`,
);

/**
 * True where Node runs a package manager or another tool that only starts processes: `NODE_OPTIONS` reaches these too, and
 * svc in them would take the management port of the application that they start. `entry`: `process.argv[1]`.
 */
export function isLauncher(entry: string | undefined): boolean {
  if (entry === undefined) return false;
  return launcherPath.test(realPath(entry).replaceAll('\\', '/'));
}

/** Commands are links to their script. */
function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}
