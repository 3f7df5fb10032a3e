import { isLoopback } from '../../ground/addresses.ts';
import { SvcError } from '../../ground/errors.ts';
import { keyIdPattern } from '../../ground/key-text.ts';
import { isNamedValues, plainObject } from '../../ground/named-values.ts';
import { keyProviderError } from '../../protect/keys/key-provider.ts';

export const vaultEngines = ['kv-v1', 'kv-v2', 'transit'] as const;
export type VaultEngine = (typeof vaultEngines)[number];

export interface VaultOptions {
  /** Default `https://127.0.0.1:8200`, as of Vault's own tools. `http:` only on loopback, where an agent or a test server listens. */
  readonly address?: string | undefined;
  /**
   * - `kv-v2` (default), `kv-v1`: the store holds the keys themselves, Base64 of 32 bytes in one field of a secret;
   * - `transit`: Vault makes data keys and decrypts them (envelope encryption).
   */
  readonly engine?: VaultEngine | undefined;
  /** Where the engine is mounted. Default `secret`, for Transit `transit`. */
  readonly mount?: string | undefined;
  /**
   * Path of the secret below the mount, or name of the Transit key, by the name that rules use. Default: that name.
   * One each: versions of a key are Vault's business.
   */
  readonly keys?: Readonly<Record<string, string | readonly string[]>> | undefined;
  /** Field of the secret that holds the key. Default `key`. */
  readonly field?: string | undefined;
  readonly namespace?: string | undefined;
  readonly token?: string | undefined;
  /** File with the token, read at each call: an agent may renew it. Instead of `token`. */
  readonly tokenFile?: string | undefined;
  /** PEM file of the authorities to trust, read at each call. Default: those that Node trusts. */
  readonly caFile?: string | undefined;
  /** The longest that a call may take. Default 5000. */
  readonly timeoutMs?: number | undefined;
}

const pathPattern = /^[A-Za-z0-9_-]+(\/[A-Za-z0-9_-]+)*$/;

/** Throws what could only fail later, or would send the token over an open network. Returns the address without its last `/`. */
export function checkVaultOptions(options: VaultOptions): string {
  const { engine = 'kv-v2', mount = 'secret', keys = {}, namespace } = options;
  if (!vaultEngines.includes(engine)) throw refused(`the engine must be one of ${vaultEngines.join(', ')}`);
  if (!pathPattern.test(mount)) throw refused('the mount is not a path of letters, digits, _ and -');
  if (namespace !== undefined && !/^[\w.-]+(\/[\w.-]+)*\/?$/.test(namespace))
    throw refused('the namespace is not a path of letters, digits, dots, _ and -');
  if (!isNamedValues(keys)) throw refused(`keys must be ${plainObject}`);
  for (const [name, paths] of Object.entries(keys)) {
    const [path = name, ...others] = [paths].flat();
    if (!pathPattern.test(path)) throw invalidKeyId();
    if (others.length > 0) throw refused(`the key "${name}" has more than one path`);
  }
  if ((options.token === undefined) === (options.tokenFile === undefined))
    throw refused('it needs a token or a file with one, and not both');
  return checkAddress(options.address ?? 'https://127.0.0.1:8200');
}

/** The path of a key below its mount. What comes from outside cannot leave it: `Invalid key id`. */
export function pathOf(keyId: string, { keys }: VaultOptions): string {
  if (!keyIdPattern.test(keyId)) throw invalidKeyId();
  const [path = keyId] = keys !== undefined && Object.hasOwn(keys, keyId) ? [keys[keyId]].flat() : [];
  return path;
}

function checkAddress(address: string): string {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (url === undefined || !['http:', 'https:'].includes(url.protocol))
    throw refused('the address must be a URL: https://host:port');
  if (url.username || url.password || url.search || url.hash)
    throw refused('the address must hold no user, password, query or fragment');
  if (url.protocol === 'http:' && !isLoopback(url.hostname.replace(/^\[|\]$/g, '')))
    throw refused('the address must begin with https://, as it is not on loopback');
  return `${url.origin}${url.pathname}`.replace(/\/+$/, '');
}

function refused(why: string): SvcError {
  return keyProviderError('SVC_PROTECT_KEY_REFUSED', `Vault cannot be used: ${why}`);
}

function invalidKeyId(): SvcError {
  return new SvcError(
    'SVC_PROTECT_KEY_ID',
    'Invalid key id: it must be letters, digits, underscores and hyphens (in the path of a secret also /)',
  );
}
