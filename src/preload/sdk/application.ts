import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { type Manifest, nearestManifest } from '../../ground/files.ts';

/** What the application has installed. */
export interface Application {
  /** Its package.json: the nearest one with a name. */
  readonly manifest: Manifest | undefined;
  /** The file that `require` of a package loads; `undefined`: it is not installed. */
  fileOf(name: string): string | undefined;
  versionOf(name: string): string | undefined;
  /** Throws what loading it throws. */
  load(name: string): unknown;
}

/** From the entry file, the configuration file and the working directory; at last from svc itself, beside which pnpm puts peers. */
export function applicationOf(
  baseDir: string,
  entry = process.argv[1],
  directory = process.cwd(),
): Application {
  const folders = [...(entry === undefined ? [] : [dirname(resolve(directory, entry))]), baseDir, directory];
  const places = [...folders.map((folder) => join(folder, 'noop.js')), import.meta.url].map((place) =>
    createRequire(place),
  );
  const fileOf = (name: string): string | undefined => {
    for (const place of places) {
      try {
        return place.resolve(name);
      } catch {
        // Not from there.
      }
    }
    return undefined;
  };
  const isNamed = ({ name }: Manifest): boolean => Boolean(name);
  return {
    manifest: folders
      .filter((folder) => !/[\\/]node_modules([\\/]|$)/.test(folder))
      .map((folder) => nearestManifest(folder, isNamed))
      .find((manifest) => manifest !== undefined),
    fileOf,
    versionOf(name) {
      const file = fileOf(name);
      return file && nearestManifest(dirname(file), (manifest) => manifest.name === name)?.version;
    },
    load(name) {
      return createRequire(import.meta.url)(fileOf(name) ?? name);
    },
  };
}

/** Where every copy of the API, of any 1.x, keeps what was registered. */
const globalsKey = Symbol.for('opentelemetry.js.api.1');

interface Registered {
  diag?: DiagLogger | undefined;
  readonly [part: string]: unknown;
}

type DiagLogger = Readonly<Record<(typeof levels)[number], (...args: unknown[]) => void>>;

const levels = ['error', 'warn', 'info', 'debug', 'verbose'] as const;

const globals = globalThis as unknown as Record<symbol, Registered | undefined>;

/** What an SDK registers; a logger for diagnostics alone is none. */
const sdkParts = ['trace', 'metrics', 'context', 'propagation', 'logs'];

/** What the API says of a registration that it does not take: of a second one, and of one by an API of another version. */
const notTaken = /duplicate registration of API|does not match previously registered API/;

/** Whether the application has started an SDK, or a part of one. */
export function isSdkRegistered(): boolean {
  const registered = globals[globalsKey];
  return registered !== undefined && sdkParts.some((part) => registered[part] !== undefined);
}

/**
 * Calls back, once, when something else is registered in the place of what is there. The API, in each of its copies, says so
 * to its diagnostic logger alone, which mostly nobody has set: so svc listens to whichever there is. Nothing that runs often
 * reads it.
 */
export function watchLaterSdks(onAttempt: () => void): void {
  const registered = globals[globalsKey];
  if (registered === undefined) return;
  let isTold = false;
  const hear = (message: unknown): void => {
    if (isTold || !notTaken.test(String(message))) return;
    isTold = true;
    onAttempt();
  };
  let logger = heard(registered.diag, hear);
  Object.defineProperty(registered, 'diag', {
    configurable: true,
    enumerable: true,
    get: () => logger,
    set(next: DiagLogger | undefined) {
      logger = heard(next, hear);
    },
  });
}

/** A logger that tells `hear` of errors, whatever the level of the one that it hands them on to. */
function heard(logger: DiagLogger | undefined, hear: (message: unknown) => void): DiagLogger {
  const at = (level: (typeof levels)[number]) => {
    return (...args: unknown[]): void => {
      if (level === 'error') hear(args[0]);
      logger?.[level](...args);
    };
  };
  return Object.fromEntries(levels.map((level) => [level, at(level)])) as DiagLogger;
}
