import { loadChunk } from './ground/lifecycle.ts';
import type * as Insert from './start/commands/insert-targets.ts';

/** The part of Vite's plugins that this one is. */
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
 * `svc/vite`: captures the targets of the configuration in the files that Vite transforms, where `svc/register` runs them: the tests of
 * Vitest, and Vite's server for server-side code.
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
  let insert: Insert.InsertTargets | undefined;
  return {
    name: 'svc',
    // Types and decorators are compiled by then; and no line moves, so that the map of before stays right.
    enforce: 'post',
    transform(code, id) {
      insert ??= insertions();
      const inserted = insert(id, code, (message) => this.warn(message));
      return inserted === undefined ? undefined : { code: inserted, map: null };
    },
  };
}

/** By the configuration that `svc/register` finds: the processes that Vite and Vitest start run in the same folder. */
function insertions(): Insert.InsertTargets {
  const { insertTargets } = loadChunk(import.meta.url, './start/commands/insert-targets.ts') as typeof Insert;
  return insertTargets(process.cwd());
}
