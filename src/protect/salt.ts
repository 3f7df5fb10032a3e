import { SvcError } from '../errors.ts';
import type { Logger } from '../observe/logger.ts';
import { isWeak } from './weak-key.ts';

/** Known to everybody: hashes made with it can be turned back by trying values. For development only. */
export const defaultSalt = 'svc-default-pii-hash-salt';
const shortBytes = 16;

export interface SaltOptions {
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

function missing(how: string): SvcError {
  return new SvcError('SVC_PROTECT_NO_SALT', `PII hash salt ${how}; set PII_HASH_SALT`);
}
