import Module from 'node:module';

/** Whether `module.registerHooks` is usable. In earlier versions a load hook crashes Node when CommonJS requires an ES module. */
export function hasSoundSyncHooks(version: string = process.versions.node): boolean {
  const [major = 0, minor = 0, patch = 0] = version.split('.').map(Number);
  const isFrom = (wantedMinor: number, wantedPatch: number) =>
    minor > wantedMinor || (minor === wantedMinor && patch >= wantedPatch);
  if (major === 22) return isFrom(22, 3);
  if (major === 24) return isFrom(11, 1);
  if (major === 25) return isFrom(1, 0);
  return major >= 26;
}

interface Loading {
  readonly loaded: boolean;
  readonly parent: { readonly id: string } | null | undefined;
}

/** True during `--require`: asynchronous hooks registered there break `require` of ES modules. */
export function isRequiredPreload(): boolean {
  const { prototype, _cache } = Module as unknown as {
    prototype: { isPreloading?: boolean };
    _cache: Readonly<Record<string, Loading>>;
  };
  if (prototype.isPreloading === true) return true;
  // ts-node preloads within a preload, which ends the state that Node reports too early.
  return withoutDeprecations(() =>
    Object.values(_cache).some(({ loaded, parent }) => !loaded && parent?.id === 'internal/preload'),
  );
}

/** `module.parent` is deprecated: with `--throw-deprecation`, reading it would end the application. */
function withoutDeprecations<T>(read: () => T): T {
  const before = process.noDeprecation;
  process.noDeprecation = true;
  try {
    return read();
  } finally {
    if (before === undefined) Reflect.deleteProperty(process, 'noDeprecation');
    else process.noDeprecation = before;
  }
}

/** Call it only if needed: it reads `module.parent`, about which `--pending-deprecation` warns. */
export function preloadedBy(): 'import' | 'require' {
  return !hasSoundSyncHooks() && isRequiredPreload() ? 'require' : 'import';
}
