import { SvcError } from '../../ground/errors.ts';
import type { Logger } from '../../observe/logger.ts';

/** Known to everybody: hashes made with it can be turned back by trying values. For development only. */
export const defaultSalt = 'svc-default-pii-hash-salt';
const shortBytes = 16;

interface SaltOptions {
  readonly salt: string | undefined;
  /** Refuses the default salt. Callers set it where `NODE_ENV` is `production`. */
  readonly requireSalt: boolean;
  readonly logger: Pick<Logger, 'warn'>;
}

/** The salt to hash with. Warns about the default and about short ones; throws `SVC_PROTECT_NO_SALT` where none may not be. */
export function chooseSalt({ salt, requireSalt, logger }: SaltOptions): string {
  if (salt !== undefined) {
    if (salt === '') throw missing('is empty');
    const bytes = Buffer.byteLength(salt);
    if (bytes < shortBytes)
      logger.warn(`SECURITY: svc.pii.crypto.salt has ${bytes} bytes; use ${shortBytes} random bytes or more`);
    else if (isWeak(Buffer.from(salt)))
      logger.warn(
        'SECURITY: svc.pii.crypto.salt is not random, and can be guessed: make one with a generator',
      );
    return salt;
  }
  if (requireSalt) throw missing('is not configured');
  logger.warn(
    'SECURITY: no svc.pii.crypto.salt (PII_HASH_SALT): hashes are made with the public default salt and can be reversed',
  );
  return defaultSalt;
}

/** The salt, `undefined` where none may not be, and what there is to say about it once something is hashed. */
export function openSalt({ logger, ...options }: SaltOptions): {
  value: string | undefined;
  announce(): void;
} {
  const lines: string[] = [];
  let value: string | undefined;
  try {
    value = chooseSalt({ ...options, logger: { warn: (line) => void lines.push(line) } });
  } catch {
    // Without a salt whatever hashes is refused, with an error that says so.
  }
  return {
    value,
    announce() {
      for (const line of lines.splice(0)) logger.warn(line);
    },
  };
}

function missing(how: string): SvcError {
  return new SvcError('SVC_PROTECT_NO_SALT', `PII hash salt ${how}; set PII_HASH_SALT`);
}

/**
 * Whether a key or salt cannot be random: equal bytes, a short text over and over, or counting up. Chance makes none of it in
 * 32 random bytes, and in 32 random hexadecimal digits less than once in 100,000.
 */
export function isWeak(bytes: Uint8Array): boolean {
  const { length } = bytes;
  return new Set(bytes).size <= length / 4 || repeats(bytes) || mostEqualSteps(bytes) >= (length - 1) * 0.75;
}

/** A unit of up to half the length, the last one perhaps cut off. */
function repeats(bytes: Uint8Array): boolean {
  for (let unit = 1; unit <= bytes.length / 2; unit++)
    if (bytes.every((byte, index) => byte === bytes[index % unit])) return true;
  return false;
}

/** How often the step that is taken most often is taken from one byte to the next. */
function mostEqualSteps(bytes: Uint8Array): number {
  const counts = new Map<number, number>();
  for (let index = 1; index < bytes.length; index++) {
    const step = ((bytes[index] as number) - (bytes[index - 1] as number)) & 0xff;
    counts.set(step, (counts.get(step) ?? 0) + 1);
  }
  return Math.max(0, ...counts.values());
}
