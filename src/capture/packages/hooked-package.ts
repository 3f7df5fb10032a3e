import type { ExportTarget, PatchOutcome } from './patch-exports.ts';

export interface PackageHookOptions {
  /**
   * How svc was preloaded. Where Node has no sound synchronous hooks, `--require` leaves `import` alone: a loader that is
   * registered there breaks every `require` of an ES module.
   */
  readonly preloadedBy: 'import' | 'require';
}

/** A package that is changed in place when it is loaded, for another reason than a target. */
export interface PackagePatch {
  readonly specifier: string;
  /**
   * Gets what `require` or `import` of it gives; called for each of them, and for each copy. Never throws. An object that it
   * returns is what `require` gives in its place, where exports cannot be changed.
   */
  readonly patch: (exports: object) => unknown;
}

/** All targets of one specifier, and what the hooks do with its exports. */
export interface HookedPackage {
  /** Names that the application can load it by: with and without `node:`. */
  readonly names: readonly string[];
  /** What `require` of it loads, absolute. */
  readonly file: string | undefined;
  /** Runs `patch` for each target, and tells its outcome. Returns what users of the module must get. Never throws. */
  readonly patchAll: (
    exports: unknown,
    patch: (exports: unknown, target: ExportTarget) => PatchOutcome,
  ) => unknown;
  readonly ids: readonly string[];
  readonly failAll: (reason: string) => void;
}
