/**
 * Throws where a part is not what svc calls or changes of it: before anything is patched, so that a version of a package which is
 * built otherwise is left as it is. `methods` are paths to functions: `Client.prototype.query`.
 */
export function assertShape(given: unknown, methods: readonly string[]): void {
  for (const path of methods) {
    let found: unknown = given;
    for (const name of path.split('.')) found = (found as Record<string, unknown> | null | undefined)?.[name];
    if (typeof found !== 'function')
      throw new Error(`it has no ${path}(), as the versions have that svc knows`);
  }
}
