import { relative, resolve } from 'node:path';
import type * as Bundlers from './capture/bundlers.ts';
import { loadChunk } from './ground/lifecycle.ts';
import type * as Drivers from './start/drivers.ts';

/** The part of Next.js' configuration that `withSvc` changes. */
interface NextSettings {
  readonly serverExternalPackages?: readonly string[] | undefined;
  readonly transpilePackages?: readonly string[] | undefined;
  readonly outputFileTracingRoot?: string | undefined;
  readonly turbopack?: { readonly root?: string | undefined } | undefined;
  readonly outputFileTracingIncludes?: Readonly<Record<string, readonly string[]>> | undefined;
  readonly compiler?: { readonly runAfterProductionCompile?: AfterCompile | undefined } | undefined;
}

type AfterCompile = (build: {
  readonly projectDir: string;
  readonly distDir: string;
}) => Promise<void> | void;

/** `next.config.*` exports an object, or a function that returns one. */
type NextConfig = object | ((...args: never[]) => object | Promise<object>);

/**
 * Adds svc to a Next.js configuration. svc, the database drivers and ORMs that it follows, and packages of targets stay out of the bundle.
 * `output: 'standalone'` gets svc, all that it loads, and the configuration file. `next build` ends by writing `svc.manifest.json`, as
 * `svc manifest .next/server` does.
 *
 * @example
 * ```ts
 * // next.config.ts
 * import { withSvc } from 'svc/next';
 *
 * export default withSvc({ output: 'standalone' });
 * ```
 */
export function withSvc<Config extends NextConfig>(config: Config = {} as Config): Config {
  if (typeof config !== 'function') return added(config);
  const make = config as (...args: unknown[]) => object | Promise<object>;
  return (async (...args: unknown[]) => added(await make(...args))) as unknown as Config;
}

function added<Settings extends object>(settings: Settings): Settings {
  const {
    serverExternalPackages = [],
    transpilePackages = [],
    outputFileTracingRoot,
    outputFileTracingIncludes = {},
    turbopack,
    compiler,
  } = settings as NextSettings;
  const directory = process.cwd();
  const { followedSpecifiers } = loadChunk(import.meta.url, './start/drivers.ts') as typeof Drivers;
  const { unbundled, folders, files } = bundlers().neededPackages(
    directory,
    followedSpecifiers(),
    outputFileTracingRoot ?? turbopack?.root,
  );
  if (process.argv.includes('build')) bundlers().reserveList(directory);
  const globOf = (path: string) => relative(directory, path).replaceAll('\\', '/');
  const includes = [
    ...folders.map((folder) => `${globOf(folder)}/${loadable}`),
    ...files.map(globOf),
    listed,
  ];
  // Next.js refuses a package that is in both lists.
  const external = unbundled.filter((name) => !transpilePackages.includes(name));
  return {
    ...settings,
    compiler: {
      ...compiler,
      async runAfterProductionCompile(build: Parameters<AfterCompile>[0]) {
        await compiler?.runAfterProductionCompile?.(build);
        bundlers().writeListOf(build.projectDir, [resolve(build.projectDir, build.distDir, 'server')]);
      },
    },
    serverExternalPackages: [...new Set([...serverExternalPackages, ...external])],
    outputFileTracingIncludes: {
      ...outputFileTracingIncludes,
      [everyRoute]: [...(outputFileTracingIncludes[everyRoute] ?? []), ...includes],
    },
  };
}

const bundlers = () => loadChunk(import.meta.url, './capture/bundlers.ts') as typeof Bundlers;

/** Written by `svc manifest` and at the end of `next build`. */
const listed = 'svc.manifest.json';
const everyRoute = '/**';
/** Without documentation and types. */
const loadable = '**/*.{js,cjs,mjs,json,node,wasm}';
