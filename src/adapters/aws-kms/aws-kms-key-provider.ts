// aws-kms/: keys of AWS KMS, behind the port of `protect/keys/key-provider.ts`.

import { inTime } from '../../ground/clock.ts';
import type { SvcError } from '../../ground/errors.ts';
import { isNamedValues, plainObject } from '../../ground/named-values.ts';
import { type EnvelopeKeyProvider, keyProviderError } from '../../protect/keys/key-provider.ts';
import { type AwsKms, type AwsKmsAnswer, type AwsKmsClientOptions, openAwsKms } from './aws-kms-client.ts';
import { toKeyProviderError } from './aws-kms-failure.ts';

export interface AwsKmsOptions extends AwsKmsClientOptions {
  /**
   * What KMS calls a key, by the name that rules use: its ARN (best, as it never moves), its id, or `alias/…`. Of a list the
   * first makes new data keys and all of them decrypt. A name that is not here is taken as `alias/<name>`.
   */
  readonly keys?: Readonly<Record<string, string | readonly string[]>> | undefined;
  /**
   * Bound to every data key, shown in CloudTrail, and to be given again by who decrypts. Not secret.
   * Default: none, as readers in other languages send none.
   */
  readonly encryptionContext?: Readonly<Record<string, string>> | undefined;
  /** The longest that a call may take in all, finding credentials included. Default 8000. */
  readonly deadlineMs?: number | undefined;
}

const keyLengthBytes = 32;
/** KMS takes no longer ciphertext. */
const longestBlobBytes = 6_144;

/**
 * Data keys from AWS KMS, through the package `@aws-sdk/client-kms`, which the application installs; it is loaded at the first
 * call. Credentials are found by the SDK. Needs `kms:GenerateDataKey` and `kms:Decrypt`; consumers need `kms:Decrypt` alone.
 */
export function createAwsKmsKeyProvider(options: AwsKmsOptions = {}): EnvelopeKeyProvider {
  for (const name of ['keys', 'encryptionContext'] as const)
    if (options[name] !== undefined && !isNamedValues(options[name]))
      throw keyProviderError(
        'SVC_PROTECT_KEY_REFUSED',
        `AWS KMS cannot be used: ${name} must be ${plainObject}`,
      );
  const context = options.encryptionContext && { ...options.encryptionContext };
  let opening: Promise<AwsKms> | undefined;
  let closed = false;

  function open(): Promise<AwsKms> {
    if (closed) throw keyProviderError('SVC_PROTECT_KEY_UNAVAILABLE', 'the connection to AWS KMS is closed');
    opening ??= openAwsKms(options).catch((error: unknown) => {
      opening = undefined;
      throw error;
    });
    return opening;
  }

  async function call(key: string, command: (kms: AwsKms) => object): Promise<AwsKmsAnswer> {
    try {
      return await orAbort(options.deadlineMs ?? 8_000, async (abortSignal) => {
        const kms = await open();
        return kms.client.send(command(kms), { abortSignal });
      });
    } catch (error) {
      throw toKeyProviderError(error, key);
    }
  }

  async function decryptWith(key: string, encryptedKey: Uint8Array): Promise<Uint8Array> {
    const answer = await call(key, (kms) =>
      kms.decrypt({ KeyId: key, CiphertextBlob: encryptedKey, EncryptionContext: context }),
    );
    return checkKey(answer.Plaintext, key);
  }

  return {
    name: 'aws-kms',
    supportsEnvelopeEncryption: true,

    async generateDataKey(keyId) {
      const [key] = kmsKeysOf(options, keyId);
      const answer = await call(key, (kms) =>
        kms.generate({ KeyId: key, KeySpec: 'AES_256', EncryptionContext: context }),
      );
      const plaintext = checkKey(answer.Plaintext, key);
      return { plaintext, encryptedKey: answer.CiphertextBlob ?? new Uint8Array() };
    },

    async decryptDataKey(keyId, encryptedKey) {
      const keys = kmsKeysOf(options, keyId);
      const { length } = encryptedKey;
      if (length === 0 || length > longestBlobBytes)
        throw keyProviderError(
          'SVC_PROTECT_DECRYPT_FAILED',
          `AWS KMS, key ${keys[0]}: an encrypted data key has 1 to ${longestBlobBytes} bytes, this one ${length}`,
        );
      let failure: SvcError | undefined;
      for (const key of keys) {
        try {
          return await decryptWith(key, encryptedKey);
        } catch (error) {
          const latest = error as SvcError;
          if (latest.code === 'SVC_PROTECT_KEY_UNAVAILABLE') throw latest;
          // A key that is refused may be the right one; one that does not fit is not.
          if (failure?.code !== 'SVC_PROTECT_KEY_REFUSED') failure = latest;
        }
      }
      throw failure;
    },

    async close() {
      closed = true;
      const opened = await opening?.catch(() => undefined);
      opened?.client.destroy();
    },
  };
}

function kmsKeysOf({ keys }: AwsKmsOptions, keyId: string): readonly [string, ...string[]] {
  const named = keys !== undefined && Object.hasOwn(keys, keyId) ? keys[keyId] : undefined;
  const [first = `alias/${keyId}`, ...rest] = typeof named === 'string' ? [named] : (named ?? []);
  return [first, ...rest];
}

function checkKey(plaintext: Uint8Array | undefined, key: string): Uint8Array {
  if (plaintext?.length === keyLengthBytes) return plaintext;
  const found = `found ${plaintext?.length ?? 0}`;
  plaintext?.fill(0);
  throw keyProviderError(
    'SVC_PROTECT_DECRYPT_FAILED',
    `AWS KMS, key ${key}: a data key must be exactly ${keyLengthBytes} bytes; ${found}`,
  );
}

/** The SDK's time-outs are for single requests: looking for credentials can take any time. */
function orAbort<T>(limitMs: number, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const abort = new AbortController();
  const late = (): never => {
    abort.abort();
    throw keyProviderError('SVC_PROTECT_KEY_UNAVAILABLE', `AWS KMS has not answered within ${limitMs} ms`);
  };
  return inTime(work(abort.signal), { limitMs, keepsAlive: true, late });
}
