// vault/: keys of HashiCorp Vault and OpenBao, behind the port of `protect/keys/key-provider.ts`.

import { readBounded } from '../../ground/files/folders.ts';
import { askJson, type JsonAnswer } from '../../ground/http/ask-json.ts';
import {
  type EnvelopeKeyProvider,
  type KeyProvider,
  keyProviderError,
  type StaticKeyProvider,
} from '../../protect/keys/key-provider.ts';
import { answerError, transportError, type VaultQuestion } from './vault-failure.ts';
import { checkVaultOptions, pathOf, type VaultOptions } from './vault-options.ts';

export type VaultKeyProviderOptions = VaultOptions;

/** Far more than any answer with a key. */
const longestAnswerBytes = 65_536;
const keyLengthBytes = 32;
const base64Of32Bytes = /^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$/;
const wrappedKey = /^vault:v\d{1,9}:[A-Za-z0-9+/]{1,4096}={0,2}$/;

/**
 * Keys from HashiCorp Vault or OpenBao over HTTP, a request a call: from a K/V store, or data keys made by Transit.
 * Throws at once where the options cannot work (`SVC_PROTECT_KEY_REFUSED`, or `SVC_PROTECT_KEY_ID` for a path).
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
          `Vault at ${address}: its answer holds no data key`,
        );
      return { plaintext, encryptedKey: Buffer.from(wrapped, 'latin1') };
    },
    async decryptDataKey(keyId, encryptedKey) {
      const name = transitName(keyId, options);
      const ciphertext = Buffer.from(encryptedKey).toString('latin1');
      const damaged = (): Error =>
        keyProviderError(
          'SVC_PROTECT_DECRYPT_FAILED',
          'the encrypted data key is not one that Vault Transit made',
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
function transitName(keyId: string, options: VaultOptions): string {
  return encodeURIComponent(pathOf(keyId, options));
}

async function tokenOf({ token, tokenFile }: VaultOptions): Promise<string> {
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
  const key = Buffer.allocUnsafeSlow(keyLengthBytes); // not from the pool, which others can look into
  key.write(value, 'base64');
  return key;
}

/** Of a value that is no key, as much as can be told. */
function found(value: unknown): string {
  if (value === undefined) return 'no such field';
  if (typeof value !== 'string') return 'something that is not text';
  const bytes = Buffer.from(value, 'base64');
  return bytes.toString('base64') === value ? `${bytes.length} bytes` : 'text that is not Base64';
}
