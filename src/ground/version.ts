/** Version of this package; a test holds it against package.json. */
export const version = '0.1.0';

const needed = [22, 15, 0] as const;

/** What a process without svc says of its Node; `undefined` where svc works. */
export function unsupportedNode(version: string): string | undefined {
  const found = version.split('.').map(Number);
  for (let part = 0; part < needed.length; part++) {
    const difference = (found[part] ?? 0) - (needed[part] ?? 0);
    if (difference > 0) return undefined;
    if (difference < 0) return `needs Node ${needed.join('.')} or later, found ${version}`;
  }
  return undefined;
}

/** Of a process that does not start because svc cannot work and `svc.required` is true: `EX_CONFIG` of sysexits.h. */
export const notStartedExitCode = 78;
