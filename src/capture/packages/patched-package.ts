import Module from 'node:module';
import type { HookedPackage, PackagePatch } from './hooked-package.ts';
import { namesOf, resolvePackage } from './resolve-package.ts';

/** A package that is changed in place. One that was required before is changed at once. */
export function patchedPackage({ specifier, patch }: PackagePatch, baseDir: string): HookedPackage {
  const resolved = resolvePackage(specifier, baseDir);
  const file = 'problem' in resolved ? undefined : resolved.file;
  const patchAll = (exports: unknown): unknown => {
    const replacement = isObject(exports) ? patch(exports) : undefined;
    const standard = inner(exports);
    if (isObject(standard)) patch(standard);
    return isObject(replacement) ? replacement : exports;
  };
  const { _cache } = Module as unknown as {
    _cache: Readonly<Record<string, { exports: unknown } | undefined>>;
  };
  const loaded = file === undefined ? undefined : _cache[file];
  if (loaded !== undefined) patchAll(loaded.exports);
  return { names: namesOf(specifier), file, ids: [], patchAll, failAll() {} };
}

function inner(exports: unknown): unknown {
  return isObject(exports) && 'default' in exports ? exports.default : undefined;
}

function isObject(value: unknown): value is object {
  return (typeof value === 'object' && value !== null) || typeof value === 'function';
}
