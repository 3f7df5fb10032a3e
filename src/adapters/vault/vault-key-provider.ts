// vault/: keys of HashiCorp Vault and OpenBao, behind the port of `protect/keys/key-provider.ts`.

import { isLoopback } from '../../ground/addresses.ts';
import { SvcError } from '../../ground/errors.ts';
import { keyIdPattern } from '../../ground/event-fields.ts';
import { readBounded } from '../../ground/files.ts';
import { askJson, type JsonAnswer } from '../../ground/http.ts';
import { isNamedValues, plainObject } from '../../ground/names.ts';
import {
  type EnvelopeKeyProvider,
  type KeyProvider,
  keyProviderError,
  type StaticKeyProvider,
} from '../../protect/keys/key-provider.ts';

/** Far more than any answer with a key. */
const longestAnswerBytes = 65_536;
const keyLengthBytes = 32;
const base64Of32Bytes = /^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$/;
const wrappedKey = /^vault:v\d{1,9}:[A-Za-z0-9+/]{1,4096}={0,2}$/;

/**
 * Creates a provider of keys from HashiCorp Vault or OpenBao: keys of a K/V store, or data keys of Transit. Each call is one
 * HTTP request.
 *
 * @throws SvcError `SVC_PROTECT_KEY_REFUSED` for invalid options, `SVC_PROTECT_KEY_ID` for an invalid path of a key
 */
export function createVaultKeyProvider(options: VaultKeyProviderOptions): KeyProvider {
  const address = checkVaultOptions(options);
  const engine = options.engine ?? 'kv-v2';
  const mount = options.mount ?? (engine === 'transit' ? 'transit' : 'secret');

  async function ask(path: string, body?: object): Promise<Record<string, unknown>> {
    const question: VaultQuestion = { address, path, engine };
    const headers: Record<string, string> = {
      'x-vault-request': 'true',
      'x-vault-token': await tokenOf(options),
    };
    if (options.namespace !== undefined) headers['x-vault-namespace'] = options.namespace;
    const ca = options.caFile === undefined ? undefined : await readOwnFile(options.caFile, 'of authorities');
    const method = body === undefined ? 'GET' : 'POST';
    const timeoutMs = options.timeoutMs ?? 5_000;
    let answer: JsonAnswer;
    try {
      answer = await askJson({
        ...{ url: `${address}/v1/${path}`, method, headers, body, ca, timeoutMs, longestAnswerBytes },
      });
    } catch (error) {
      throw transportError(error, address);
    }
    if (answer.status !== 200) throw answerError(answer, question);
    return recordIn(answer.body, 'data');
  }

  const store: StaticKeyProvider = {
    name: `vault-${engine}`,
    supportsEnvelopeEncryption: false,
    async getKey(keyId) {
      const path = `${mount}/${engine === 'kv-v2' ? 'data/' : ''}${pathOf(keyId, options)}`;
      const answer = await ask(path);
      const field = options.field ?? 'key';
      const value = (engine === 'kv-v2' ? recordIn(answer, 'data') : answer)[field];
      const key = decodeKey(value);
      if (key !== undefined) return key;
      const wanted = `Base64 of ${keyLengthBytes} bytes in its field "${field}"`;
      throw keyProviderError(
        'SVC_PROTECT_KEY_REFUSED',
        `Vault at ${address}: ${path} must hold ${wanted}; it holds ${found(value)}`,
      );
    },
  };

  const transit: EnvelopeKeyProvider = {
    name: 'vault-transit',
    supportsEnvelopeEncryption: true,
    async generateDataKey(keyId) {
      const answer = await ask(`${mount}/datakey/plaintext/${transitName(keyId, options)}`, { bits: 256 });
      const plaintext = decodeKey(answer.plaintext);
      const wrapped = answer.ciphertext;
      if (plaintext === undefined || typeof wrapped !== 'string' || !wrappedKey.test(wrapped))
        throw keyProviderError(
          'SVC_PROTECT_KEY_UNAVAILABLE',
          `Vault at ${address}: its response holds no data key`,
        );
      return { plaintext, encryptedKey: Buffer.from(wrapped, 'latin1') };
    },
    async decryptDataKey(keyId, encryptedKey) {
      const name = transitName(keyId, options);
      const ciphertext = Buffer.from(encryptedKey).toString('latin1');
      const damaged = (): Error =>
        keyProviderError(
          'SVC_PROTECT_DECRYPT_FAILED',
          'the encrypted data key was not made by Vault Transit',
        );
      if (!wrappedKey.test(ciphertext)) throw damaged();
      const key = decodeKey((await ask(`${mount}/decrypt/${name}`, { ciphertext })).plaintext);
      if (key === undefined) throw damaged();
      return key;
    },
  };

  return engine === 'transit' ? transit : store;
}

// A Transit key has a name, not a path.
function transitName(keyId: string, options: VaultKeyProviderOptions): string {
  return encodeURIComponent(pathOf(keyId, options));
}

async function tokenOf({ token, tokenFile }: VaultKeyProviderOptions): Promise<string> {
  const text = tokenFile === undefined ? token : String(await readOwnFile(tokenFile, 'of the token'));
  const trimmed = text?.trim() ?? '';
  if (trimmed === '')
    throw keyProviderError('SVC_PROTECT_KEY_REFUSED', 'Vault cannot be used: the token is empty');
  return trimmed;
}

async function readOwnFile(file: string, what: string): Promise<Buffer> {
  try {
    return await readBounded(file);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw keyProviderError(
      'SVC_PROTECT_KEY_REFUSED',
      `Vault cannot be used: the file ${what} cannot be read (${code})`,
    );
  }
}

function recordIn(value: unknown, name: string): Record<string, unknown> {
  const inner =
    typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined;
  return typeof inner === 'object' && inner !== null ? (inner as Record<string, unknown>) : {};
}

function decodeKey(value: unknown): Buffer | undefined {
  if (typeof value !== 'string' || !base64Of32Bytes.test(value)) return undefined;
  const key = Buffer.allocUnsafeSlow(keyLengthBytes); // not from the pool, which other code can read
  key.write(value, 'base64');
  return key;
}

/** Describes an invalid value without showing it. */
function found(value: unknown): string {
  if (value === undefined) return 'no such field';
  if (typeof value !== 'string') return 'something that is not text';
  const bytes = Buffer.from(value, 'base64');
  return bytes.toString('base64') === value ? `${bytes.length} bytes` : 'text that is not Base64';
}

interface VaultQuestion {
  /** `https://vault.example.com:8200` */
  readonly address: string;
  /** `secret/data/customer` */
  readonly path: string;
  readonly engine: VaultEngine;
}

type Verdict = readonly [kind: 'refused' | 'unavailable' | 'mismatch', why: string];

const codes = {
  refused: 'SVC_PROTECT_KEY_REFUSED',
  unavailable: 'SVC_PROTECT_KEY_UNAVAILABLE',
  mismatch: 'SVC_PROTECT_DECRYPT_FAILED',
} as const;

/** One line for an operator. The text of an answer is compared with known texts, and never shown. */
function answerError(answer: JsonAnswer, question: VaultQuestion): SvcError {
  const [kind, why] = judge(answer, question);
  return keyProviderError(codes[kind], `Vault at ${question.address}: ${why}`);
}

function judge({ status, body }: JsonAnswer, question: VaultQuestion): Verdict {
  const errors = textsOf(body, 'errors');
  if (status === 400) return judgeBadRequest(errors, question);
  if (status === 403) return judgeForbidden(errors, question);
  if (status === 404) return judgeNotFound(body, errors, question);
  if (status === 405) return ['refused', `${question.path} cannot be asked for ${question.engine} keys`];
  if (status === 503 && errors.includes('Vault is sealed')) return ['unavailable', 'it is sealed: unseal it'];
  if (status === 307)
    return ['unavailable', 'it is a standby (307): svc.pii.kms.vault.address must name the active server'];
  if (status >= 300 && status < 400)
    return [
      'refused',
      `it answers with a redirect (${status}), which svc does not follow: correct the address`,
    ];
  return ['unavailable', `it answers with status ${status}`];
}

function judgeBadRequest(errors: string, { path }: VaultQuestion): Verdict {
  if (errors.includes('encryption key not found')) return ['refused', `there is no Transit key for ${path}`];
  if (errors.includes('too old'))
    return ['refused', `the data key is older than the min_decryption_version of its Transit key (${path})`];
  if (errors.includes('invalid ciphertext') || errors.includes('message authentication failed'))
    return ['mismatch', `the encrypted data key is damaged, or another Transit key made it (${path})`];
  if (errors.includes('not supported for key type'))
    return ['refused', `the Transit key is not for encryption (${path})`];
  return ['refused', `it rejected the request for ${path} (400)`];
}

function judgeForbidden(errors: string, { path }: VaultQuestion): Verdict {
  // OpenBao reports a bad token with these two words alone, Vault with a second error. Older versions do not distinguish.
  if (errors === 'permission denied' || errors.includes('invalid token'))
    return ['refused', 'permission denied: the token is wrong, has expired, or belongs to another namespace'];
  return ['refused', `permission denied: no policy of the token allows ${path}`];
}

function judgeNotFound(body: unknown, errors: string, { path, engine }: VaultQuestion): Verdict {
  if (errors.includes('no handler for route')) return ['refused', `no engine is mounted for ${path}`];
  if (errors.includes('namespace not found')) return ['refused', 'there is no such namespace'];
  if (textsOf(body, 'warnings').includes('versioned K/V'))
    return ['refused', `${path} is in a K/V version 2 mount: the engine must be kv-v2`];
  const data = fieldOf(body, 'data');
  if (fieldOf(data, 'metadata') !== undefined)
    return ['refused', `the current version of ${path} is deleted: undelete it, or write a new one`];
  if (engine === 'kv-v2')
    return ['refused', `there is no secret at ${path} (in a K/V version 1 mount the engine must be kv-v1)`];
  return ['refused', `there is no secret at ${path}`];
}

/** The answer is missing or incomplete. */
function transportError(thrown: unknown, address: string): SvcError {
  const { code } = thrown as NodeJS.ErrnoException;
  const word = typeof code === 'string' && /^\w{1,60}$/.test(code) ? code : 'unknown error';
  const [kind, why] = judgeTransport(word);
  return keyProviderError(codes[kind], `Vault at ${address}: ${why}`);
}

function judgeTransport(code: string): Verdict {
  if (code === 'TIMEOUT') return ['unavailable', 'it did not answer in time'];
  if (code === 'TOO_LARGE') return ['unavailable', 'its response is too large for Vault'];
  if (code === 'NOT_JSON') return ['unavailable', 'its response is not JSON: is this a Vault server?'];
  if (code === 'ERR_INVALID_CHAR')
    return ['refused', 'the token or namespace has characters that HTTP headers do not allow'];
  if (/CERT|SIGNATURE|SELF_SIGNED|ERR_TLS/.test(code))
    return [
      'refused',
      `its certificate is not trusted (${code}): add its authority to svc.pii.kms.vault.ca-file`,
    ];
  if (/^ERR_SSL|EPROTO/.test(code)) return ['refused', `no TLS connection is possible (${code})`];
  return ['unavailable', `it cannot be reached (${code})`];
}

function fieldOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? (value as Record<string, unknown>)[name]
    : undefined;
}

function textsOf(body: unknown, name: 'errors' | 'warnings'): string {
  const texts = fieldOf(body, name);
  return Array.isArray(texts) ? texts.filter((each) => typeof each === 'string').join('\n') : '';
}

const vaultEngines = ['kv-v1', 'kv-v2', 'transit'] as const;
type VaultEngine = (typeof vaultEngines)[number];

export interface VaultKeyProviderOptions {
  /** URL of the server. `http:` is allowed on loopback only. Default: `https://127.0.0.1:8200`, as in Vault's own tools. */
  readonly address?: string | undefined;
  /**
   * - `kv-v2` (default), `kv-v1`: the store holds the keys themselves, Base64 of 32 bytes in one field of a secret;
   * - `transit`: Vault makes data keys and decrypts them (envelope encryption).
   */
  readonly engine?: VaultEngine | undefined;
  /** Mount path of the engine. Default: `secret`, for Transit `transit`. */
  readonly mount?: string | undefined;
  /**
   * Path of the secret below the mount, or name of the Transit key, by the names that rules use. Each name has one path,
   * because Vault keeps the versions of a key. Default: the name itself.
   */
  readonly keys?: Readonly<Record<string, string | readonly string[]>> | undefined;
  /** Field of the secret that holds the key. Default: `key`. */
  readonly field?: string | undefined;
  readonly namespace?: string | undefined;
  readonly token?: string | undefined;
  /** File with the token, instead of `token`. Read at each call, because an agent may renew it. */
  readonly tokenFile?: string | undefined;
  /** PEM file of the authorities to trust, read at each call. Default: the authorities that Node trusts. */
  readonly caFile?: string | undefined;
  /** Time limit of one call in milliseconds. Default: 5000. */
  readonly timeoutMs?: number | undefined;
}

const pathPattern = /^[A-Za-z0-9_-]+(\/[A-Za-z0-9_-]+)*$/;

/** Throws for options that would fail later, or would send the token over an open network. Returns the address. */
function checkVaultOptions(options: VaultKeyProviderOptions): string {
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
    throw refused('it needs either a token or a token file');
  return checkAddress(options.address ?? 'https://127.0.0.1:8200');
}

/** The path of a key below its mount. Throws `Invalid key id` for a name that would leave it. */
function pathOf(keyId: string, { keys }: VaultKeyProviderOptions): string {
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
    throw refused('the address must begin with https://, unless it is on loopback');
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
