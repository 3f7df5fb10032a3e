import { crc32c } from './crc32c.ts';

/** CRC-32C of `bytes` from `start` to `end`, as a signed 32-bit number. */
export type Checksum = typeof crc32c;

interface NativeModule {
  readonly crc32c: (bytes: Uint8Array) => number;
}

// Not written into the import: the package is an optional peer, which type checkers and bundlers must not insist on.
const packageName: string = '@node-rs/crc32';

/** That of the package, an eighth of the time, where it is installed with a binary for this machine; else svc's own. Never rejects. */
export async function loadChecksum(
  load: () => Promise<NativeModule> = () => import(packageName),
): Promise<Checksum> {
  try {
    const native = (await load()).crc32c;
    const checksum: Checksum = (bytes, start, end) => native(bytes.subarray(start, end)) | 0;
    return isRight(checksum) ? checksum : crc32c;
  } catch {
    return crc32c;
  }
}

/** A broker refuses every batch with another checksum. */
function isRight(checksum: Checksum): boolean {
  const sample = Uint8Array.from({ length: 300 }, (_, at) => at * 167);
  return checksum(sample, 1, sample.length) === crc32c(sample, 1, sample.length);
}
