import type * as Bundlers from './capture/bundlers.ts';
import { loadChunk } from './ground/lifecycle.ts';

/** The part of Vite's plugin interface that is used. */
interface VitePlugin {
  readonly name: string;
  readonly enforce: 'post';
  transform(
    this: { warn(message: string): void },
    code: string,
    id: string,
  ): { code: string; map: null } | undefined;
}

/**
 * A Vite plugin that captures the configured targets in the files that Vite transforms: the tests of Vitest, and Vite's server for
 * server-side code. The process needs `svc/register`.
 *
 * @example
 * ```ts
 * // vitest.config.ts
 * import { svc } from 'svc/vite';
 *
 * export default defineConfig({ plugins: [svc()], test: { execArgv: ['--import', 'svc/register'] } });
 * ```
 */
export function svc(): VitePlugin {
  let insert: ReturnType<typeof insertions> | undefined;
  return {
    name: 'svc',
    // After the compilers of types and decorators. Lines do not move, so the source map stays valid.
    enforce: 'post',
    transform(code, id) {
      insert ??= insertions();
      const inserted = insert(id, code, (message) => this.warn(message));
      return inserted === undefined ? undefined : { code: inserted, map: null };
    },
  };
}

/** Reads the same configuration as `svc/register`: Vite and Vitest start their processes in the same folder. */
function insertions() {
  const { insertTargets } = loadChunk(import.meta.url, './capture/bundlers.ts') as typeof Bundlers;
  return insertTargets(process.cwd());
}
