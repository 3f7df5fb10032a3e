import { SvcError } from '../ground/errors.ts';
import { readBoundedSync } from '../ground/files/folders.ts';
import type { ConfiguredKey } from '../protect/keys/key-ring.ts';

/**
 * Keys out of a JSON file: `{ "keys": [{ "id": "2027-01", "key": "<Base64 of 32 bytes>" }] }`.
 * Throws `SVC_CONSUMER_KEYS_FILE`, with nothing of the content, as JSON errors quote it.
 */
export function readKeysFile(path: string): readonly ConfiguredKey[] {
  let document: { keys?: unknown };
  try {
    document = JSON.parse(readBoundedSync(path).toString()) as { keys?: unknown };
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    throw unusable(path, code === undefined ? 'it is not valid JSON' : `it cannot be read (${code})`);
  }
  const keys = document?.keys;
  if (!Array.isArray(keys) || keys.length === 0 || !keys.every(isKey))
    throw unusable(path, 'it must be { "keys": [{ "id": "…", "key": "<Base64>" }, …] }');
  return keys;
}

function isKey(value: unknown): value is ConfiguredKey {
  const { id, key, status } = (value ?? {}) as Record<string, unknown>;
  const isStatus = status === undefined || status === 'primary' || status === 'decrypt';
  return typeof id === 'string' && typeof key === 'string' && isStatus;
}

function unusable(path: string, why: string): SvcError {
  return new SvcError('SVC_CONSUMER_KEYS_FILE', `the keys file "${path}" cannot be used: ${why}`);
}
