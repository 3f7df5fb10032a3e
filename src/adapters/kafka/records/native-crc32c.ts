import { crc32c } from './crc32c.ts';

export type Checksum = typeof crc32c;

interface NativeModule {
  readonly crc32c: (bytes: Uint8Array, before: number) => number;
}

// Not written into the import: the package is an optional peer, which type checkers and bundlers must not insist on.
const packageName: string = '@node-rs/crc32';

/** That of the package, an eighth of the time, where it is installed with a binary for this machine; else svc's own. Never rejects. */
export async function loadChecksum(
  load: () => Promise<NativeModule> = () => import(packageName),
): Promise<Checksum> {
  try {
    const native = (await load()).crc32c;
    const checksum: Checksum = (bytes, start, end, before = 0) =>
      native(bytes.subarray(start, end), before >>> 0) | 0;
    return isRight(checksum) ? checksum : crc32c;
  } catch {
    return crc32c;
  }
}

/** A broker refuses every batch with another checksum. */
function isRight(checksum: Checksum): boolean {
  const sample = Uint8Array.from({ length: 300 }, (_, at) => at * 167);
  const inParts = checksum(sample, 200, sample.length, checksum(sample, 1, 200));
  return inParts === crc32c(sample, 1, sample.length);
}
