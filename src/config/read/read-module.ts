import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { types } from 'node:util';
import type { Problem } from '../check/problem.ts';
import { kindOfError } from '../check/problem.ts';

export type LoadedModule =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly problem: Problem };

/** Runs a configuration file that is code (`.mjs`, `.ts`, …) and takes its default export. Synchronous. */
export function loadModule(path: string, name: string): LoadedModule {
  let exported: unknown;
  try {
    exported = createRequire(path)(path);
  } catch (error) {
    return { ok: false, problem: { name, ...explain(error, path) } };
  }
  if (typeof exported === 'object' && exported !== null && 'default' in exported) {
    return checkPromise(exported.default, name);
  }
  if (types.isModuleNamespaceObject(exported)) {
    return {
      ok: false,
      problem: { name, message: 'has no default export', fix: 'Write export default { svc: { … } }' },
    };
  }
  return checkPromise(exported, name);
}

function checkPromise(value: unknown, name: string): LoadedModule {
  if (!types.isPromise(value)) return { ok: true, value };
  // Nobody waits for it; a rejection must not end the process.
  value.catch(() => {});
  const fix = 'svc starts before the application and cannot wait: export the object itself';
  return { ok: false, problem: { name, message: 'exports a promise', fix } };
}

function explain(error: unknown, path: string): Omit<Problem, 'name'> {
  const isError = types.isNativeError(error);
  const code = isError && 'code' in error ? error.code : undefined;
  if (code === 'ERR_REQUIRE_ASYNC_MODULE') {
    const fix = 'svc starts before the application and cannot wait: take the await out';
    return { message: 'has a top-level await, or imports a module that has one', fix };
  }
  if (isTypeScript(path) && !runsTypeScript()) {
    const fix = `Use svc.config.mjs or svc.config.yaml, or Node 22.18 or later without --no-strip-types`;
    return { message: `cannot be loaded: this Node (${process.version}) does not run TypeScript`, fix };
  }
  if (code === 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX') {
    const fix = 'Leave out enums, namespaces and parameter properties';
    return { message: 'has TypeScript syntax that Node cannot strip', where: lineIn(error, path), fix };
  }
  const where = lineIn(error, path);
  if (code === 'MODULE_NOT_FOUND' || code === 'ERR_MODULE_NOT_FOUND')
    return { message: 'imports a module that cannot be found', where, fix: `Run node ${path} to see which` };
  // The rest of what the error says may quote the text, as an unknown name does: that of a password without quotes.
  const kind = kindOfError(error);
  const fix =
    kind === 'SyntaxError' ? `Run node --check ${path}` : `Run node ${path} to see all that it says`;
  return { message: `cannot be loaded: ${kind}`, where, fix };
}

function isTypeScript(path: string): boolean {
  return /\.[mc]?ts$/i.test(path);
}

/** By itself, or with a loader such as tsx. */
function runsTypeScript(): boolean {
  const { features } = process as { features: { typescript?: false | string } };
  return Boolean(features.typescript) || '.ts' in createRequire(import.meta.url).extensions;
}

/** `line 3`, where the stack tells. */
function lineIn(error: unknown, path: string): string | undefined {
  const stack = types.isNativeError(error) ? String(error.stack) : '';
  const names = [pathToFileURL(path).href, path];
  const after = names.map((name) => stack.split(name)[1]).find((text) => text !== undefined);
  const line = after?.match(/^:(\d+)/)?.[1];
  return line && `line ${line}`;
}
