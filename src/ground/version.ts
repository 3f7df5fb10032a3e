/** Version of this package; a test compares it with package.json. */
export const version = '0.1.0';

const needed = [22, 15, 0] as const;

/** Why svc does not support this version of Node; `undefined`: it does. */
export function unsupportedNode(version: string): string | undefined {
  const found = version.split('.').map(Number);
  for (let part = 0; part < needed.length; part++) {
    const difference = (found[part] ?? 0) - (needed[part] ?? 0);
    if (difference > 0) return undefined;
    if (difference < 0) return `needs Node ${needed.join('.')} or later, found ${version}`;
  }
  return undefined;
}

/** Exit code if svc cannot work and `svc.required` is true: `EX_CONFIG` of sysexits.h. */
export const notStartedExitCode = 78;
