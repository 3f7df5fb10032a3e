// aws-kms/: keys of AWS KMS, behind the port of `protect/keys/key-provider.ts`.

import { inTime } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import { isNamedValues, plainObject } from '../../ground/names.ts';
import { type EnvelopeKeyProvider, keyProviderError } from '../../protect/keys/key-provider.ts';

export interface AwsKmsOptions extends AwsKmsClientOptions {
  /**
   * KMS keys by the names that rules use. A value is an ARN (best, as it never moves), a key id, or `alias/…`. The first of a
   * list makes new data keys, and all of them decrypt. Default for a missing name: `alias/<name>`.
   */
  readonly keys?: Readonly<Record<string, string | readonly string[]>> | undefined;
  /**
   * Bound to every data key and shown in CloudTrail. Consumers must pass the same. Not secret. Default: none, because readers
   * in other languages send none.
   */
  readonly encryptionContext?: Readonly<Record<string, string>> | undefined;
  /** Time limit of one call in milliseconds, with the search for credentials. Default: 8000. */
  readonly deadlineMs?: number | undefined;
}

const keyLengthBytes = 32;
/** The longest ciphertext that KMS accepts. */
const longestBlobBytes = 6_144;

/**
 * Creates a provider of data keys from AWS KMS. Install the package `@aws-sdk/client-kms`, which is loaded at the first call.
 * The SDK finds the credentials. svc needs `kms:GenerateDataKey` and `kms:Decrypt`. Consumers need `kms:Decrypt` only.
 *
 * @throws SvcError `SVC_PROTECT_KEY_REFUSED` if `keys` or `encryptionContext` is not a plain object
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
          // A key that KMS refuses may be the right one. A key that does not fit is not.
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

/** The SDK's time-outs apply to single requests. The search for credentials has no limit. */
function orAbort<T>(limitMs: number, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const abort = new AbortController();
  const late = (): never => {
    abort.abort();
    throw keyProviderError('SVC_PROTECT_KEY_UNAVAILABLE', `AWS KMS did not answer within ${limitMs} ms`);
  };
  return inTime(work(abort.signal), { limitMs, keepsAlive: true, late });
}

interface AwsKmsClientOptions {
  /** Default: the region that the AWS SDK finds (`AWS_REGION`, the shared configuration). */
  readonly region?: string | undefined;
  /** URL of the service, for a VPC endpoint or a test server. Default: the endpoint of the region. */
  readonly endpoint?: string | undefined;
  /** Milliseconds. Default: 1000. */
  readonly connectionTimeoutMs?: number | undefined;
  /** Time limit of one request in milliseconds. Default: 3000. */
  readonly requestTimeoutMs?: number | undefined;
  /** Attempts of one call, including the first. Refusals are never retried. Default: 2. */
  readonly maxAttempts?: number | undefined;
}

interface AwsKmsClient {
  send(command: object, options: { abortSignal: AbortSignal }): Promise<AwsKmsAnswer>;
  destroy(): void;
}

interface AwsKmsAnswer {
  readonly Plaintext?: Uint8Array;
  readonly CiphertextBlob?: Uint8Array;
}

interface DecryptInput {
  readonly KeyId: string;
  readonly CiphertextBlob: Uint8Array;
  readonly EncryptionContext: Record<string, string> | undefined;
}

interface GenerateInput {
  readonly KeyId: string;
  readonly KeySpec: 'AES_256';
  readonly EncryptionContext: Record<string, string> | undefined;
}

interface AwsKmsModule {
  readonly KMSClient: new (config: object) => AwsKmsClient;
  readonly DecryptCommand: new (input: DecryptInput) => object;
  readonly GenerateDataKeyCommand: new (input: GenerateInput) => object;
}

interface AwsKms {
  readonly client: AwsKmsClient;
  decrypt(input: DecryptInput): object;
  generate(input: GenerateInput): object;
}

// A variable: type checkers and bundlers must not require an optional peer.
const packageName: string = '@aws-sdk/client-kms';

/** Loads the SDK (some 50 ms and 15 MB) and makes a client, which connects at its first call. */
async function openAwsKms(options: AwsKmsClientOptions): Promise<AwsKms> {
  const sdk = await loadSdk();
  const client = new sdk.KMSClient({
    ...(options.region !== undefined && { region: options.region }),
    ...(options.endpoint !== undefined && { endpoint: options.endpoint }),
    maxAttempts: options.maxAttempts ?? 2,
    // By default, the SDK waits for a hanging service without limit.
    requestHandler: {
      connectionTimeout: options.connectionTimeoutMs ?? 1_000,
      requestTimeout: options.requestTimeoutMs ?? 3_000,
      throwOnRequestTimeout: true,
    },
  });
  return {
    client,
    decrypt: (input) => new sdk.DecryptCommand(input),
    generate: (input) => new sdk.GenerateDataKeyCommand(input),
  };
}

async function loadSdk(): Promise<AwsKmsModule> {
  try {
    return (await import(packageName)) as AwsKmsModule;
  } catch (error) {
    throw notLoaded(error as NodeJS.ErrnoException);
  }
}

function notLoaded({ code, message }: NodeJS.ErrnoException): SvcError {
  const missing = code === 'ERR_MODULE_NOT_FOUND' && message.includes(`'${packageName}'`);
  return keyProviderError(
    'SVC_PROTECT_KEY_REFUSED',
    missing
      ? `AWS KMS needs the package ${packageName}, which is not installed: npm install ${packageName}`
      : `the package ${packageName} could not be loaded (${code ?? 'unknown error'})`,
  );
}

const credentials =
  'the credentials are not valid: check the keys, the session and the clock of this machine';

/** Errors that no retry changes, by the SDK's name. */
const refusals: Readonly<Record<string, string>> = {
  AccessDeniedException:
    'access denied: the policies must allow kms:GenerateDataKey (a reader: kms:Decrypt) on it, with this encryption context',
  DisabledException: 'the key is disabled: enable it in KMS',
  KMSInvalidStateException: 'the key cannot be used in its state (pending deletion or import)',
  NotFoundException: 'there is no such key in this account and region: check svc.pii.kms.keys and the region',
  InvalidArnException: 'this is not the ARN of a key',
  InvalidKeyUsageException: 'the key is not one for encryption (SYMMETRIC_DEFAULT)',
  InvalidGrantTokenException: 'a grant is not valid',
  ValidationException: 'KMS rejected the request: check the id of the key',
  CredentialsProviderError: 'there are no AWS credentials for this process',
  UnrecognizedClientException: credentials,
  InvalidClientTokenId: credentials,
  InvalidSignatureException: credentials,
  SignatureDoesNotMatch: credentials,
  ExpiredTokenException: credentials,
  ExpiredToken: credentials,
  MissingAuthenticationTokenException: credentials,
  IncompleteSignature: credentials,
  OptInRequired: 'the account has no KMS',
};

const mismatches = new Set(['InvalidCiphertextException', 'IncorrectKeyException']);

interface SdkError {
  readonly name?: unknown;
  readonly code?: unknown;
  readonly message?: unknown;
  readonly $metadata?: { readonly httpStatusCode?: number };
}

/** One line for an operator, with the name of the SDK's error only. Its text can quote the request. */
function toKeyProviderError(thrown: unknown, key: string): SvcError {
  if (thrown instanceof SvcError) return thrown;
  const error = (typeof thrown === 'object' && thrown !== null ? thrown : {}) as SdkError;
  const name = nameOf(error);
  if (mismatches.has(name)) {
    const why =
      'the encrypted data key is damaged, or it was made with another KMS key or encryption context';
    return keyProviderError('SVC_PROTECT_DECRYPT_FAILED', `AWS KMS, key ${key}: ${why} (${name})`);
  }
  const refusal = refusals[name] ?? configurationFault(error);
  if (refusal !== undefined)
    return keyProviderError('SVC_PROTECT_KEY_REFUSED', `AWS KMS refuses key ${key}: ${refusal} (${name})`);
  const status = error.$metadata?.httpStatusCode;
  const detail = status === undefined ? name : `${name}, HTTP status ${status}`;
  const text = `AWS KMS cannot be used at the moment, key ${key}: ${detail}`;
  return keyProviderError('SVC_PROTECT_KEY_UNAVAILABLE', text);
}

// The name of a failed connection says nothing. Its system code (ECONNREFUSED) does.
function nameOf({ name, code }: SdkError): string {
  const word = typeof code === 'string' ? code : name;
  return typeof word === 'string' && /^\w{1,60}$/.test(word) ? word : 'unknown error';
}

function configurationFault({ message }: SdkError): string | undefined {
  if (message === 'Region is missing')
    return 'no region is configured: set svc.pii.kms.aws.region or AWS_REGION';
  return undefined;
}
