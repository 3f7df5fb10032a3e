import type { ExportTarget, PatchOutcome } from './patch-exports.ts';

export interface PackageHookOptions {
  /**
   * How svc was preloaded. Where Node has no sound synchronous hooks, `--require` leaves `import` alone: a loader that is
   * registered there breaks every `require` of an ES module.
   */
  readonly preloadedBy: 'import' | 'require';
}

/** All targets of one specifier, and what the hooks do with its exports. */
export interface HookedPackage {
  readonly specifier: string;
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
