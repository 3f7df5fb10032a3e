import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { freshFolder, type Run, runApp, writeFiles } from '../e2e/support/run-app.ts';
import { installPacked } from '../support/packed.ts';
import { everyFunction } from './every-function.ts';

const fixtures = resolve(import.meta.dirname, 'fixtures/packages');
const TIMEOUT_MS = 180_000;

/** Packages that people use: the version, and where in it functions are. Each has a program in fixtures/packages. */
interface Package {
  readonly version: string;
  readonly files: readonly string[];
  /** It wants another better-sqlite3 than the others, and gets none. */
  readonly isApart?: boolean;
}

const packages: Readonly<Record<string, Package>> = {
  hono: { version: '4.13.19', files: ['dist'] },
  knex: { version: '3.3.0', files: ['lib', 'knex.js'] },
  koa: { version: '3.3.0', files: ['lib'] },
  kysely: { version: '0.29.9', files: ['dist'] },
  'p-cancelable': { version: '4.0.1', files: ['index.js'] },
  'p-queue': { version: '10.0.0', files: ['dist'] },
  'pg-boss': { version: '12.38.0', files: ['dist'] },
  typeorm: {
    version: '1.1.1',
    files: ['index.mjs', 'data-source', 'driver', 'entity-manager', 'query-builder'],
    isApart: true,
  },
  undici: { version: '8.12.4', files: ['lib', 'index.js'] },
};
/** Beside them: the drivers of their programs. */
const others = { '@opentelemetry/api': '1.10.0', pg: '8.23.1', 'reflect-metadata': '0.2.2' };

/** The application of a package's program, shared where possible. Waits synchronously for npm, like `installPacked`. */
export function installPackage(name: string): string {
  const isApart = packages[name]?.isApart ?? false;
  const some = Object.entries(packages).filter(([, each]) => (each.isApart ?? false) === isApart);
  const versions = Object.fromEntries(some.map(([each, { version }]) => [each, version]));
  const sqlite = isApart ? {} : { 'better-sqlite3': '13.2.0' };
  return installPacked(`hosts-${isApart ? 'apart' : 'packages'}`, { ...others, ...sqlite, ...versions });
}

/**
 * What differs between the program of a package without svc, and with every function of the package captured, in both modes;
 * `null` where nothing does.
 * @param application of `installPackage`
 * @param freshDatabase gives the address of an empty database of PostgreSQL
 */
export async function runPackage(
  name: string,
  application: string,
  freshDatabase: () => Promise<string>,
): Promise<string | null> {
  const folder = freshFolder(application, `package-${name}`);
  const paths = packages[name]?.files.map((file) => join(application, 'node_modules', name, file)) ?? [];
  const targets = everyFunction(folder, paths);
  writeFiles(folder, {
    'main.mjs': readFileSync(join(fixtures, `${name}.mjs`), 'utf8'),
    'package.json': JSON.stringify({ name: 'program', version: '1.0.0', type: 'module' }),
    'svc.config.json': JSON.stringify({
      svc: { broker: { client: 'file', topic: 'events' }, log: { level: 'off' }, targets },
    }),
  });
  const run = async (isAsync?: boolean): Promise<Run> =>
    runApp({
      node: process.execPath,
      cwd: folder,
      args: [...(isAsync === undefined ? [] : ['--import', 'svc/register']), 'main.mjs'],
      env: {
        DATABASE: await freshDatabase(),
        ...(isAsync !== undefined && { SVC_BROKER_ASYNC_MODE: String(isAsync) }),
      },
      timeoutMs: TIMEOUT_MS,
    });
  const without = await run();
  if (without.code !== 0) throw new Error(`the program of ${name} fails without svc: ${without.stderr}`);
  for (const isAsync of [true, false]) {
    const under = await run(isAsync);
    const differs = [...(['code', 'stdout', 'stderr'] as const)].find(
      (each) => textOf(without, each) !== textOf(under, each),
    );
    if (differs !== undefined)
      return `async-mode ${isAsync}, ${differs}:\nwithout: ${without[differs]}\nwith svc: ${under[differs]}\n${under.stderr}`;
    if (under.events.length === 0) return `none of ${targets.length} functions made an event`;
  }
  return null;
}

/**
 * Ports, ids and times are others each time. Frames of stacks are left out: svc's own are among them, and V8 names the callers
 * of asynchronous functions only where nobody else looks at their promises.
 */
function textOf(run: Run, part: 'code' | 'stdout' | 'stderr'): string {
  const text = String(run[part]).replace(/^ +at .*\n/gm, '');
  return text.replace(/\d{4}-\d\d-\d\d[T ][\d:.]+Z?|localhost:\d+|127\.0\.0\.1:\d+|node:\d+/g, 'varying');
}

export const packageNames: readonly string[] = Object.keys(packages);
