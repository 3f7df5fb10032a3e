import type { SvcError } from '../../ground/errors.ts';
import { keyProviderError } from '../../protect/keys/key-provider.ts';

export interface AwsKmsClientOptions {
  /** Default: what the AWS SDK finds (AWS_REGION, the shared configuration). */
  readonly region?: string | undefined;
  /** Another address of the service: a VPC endpoint, a test server. Default: the one of the region. */
  readonly endpoint?: string | undefined;
  /** Default 1000. */
  readonly connectionTimeoutMs?: number | undefined;
  /** How long one request may take. Default 3000. */
  readonly requestTimeoutMs?: number | undefined;
  /** Tries of one call, the first included. Refusals are never tried again. Default 2. */
  readonly maxAttempts?: number | undefined;
}

/** The part of a `KMSClient` that is used here. */
export interface AwsKmsClient {
  send(command: object, options: { abortSignal: AbortSignal }): Promise<AwsKmsAnswer>;
  destroy(): void;
}

export interface AwsKmsAnswer {
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

/** The part of the package that is used here. */
interface AwsKmsModule {
  readonly KMSClient: new (config: object) => AwsKmsClient;
  readonly DecryptCommand: new (input: DecryptInput) => object;
  readonly GenerateDataKeyCommand: new (input: GenerateInput) => object;
}

export interface AwsKms {
  readonly client: AwsKmsClient;
  decrypt(input: DecryptInput): object;
  generate(input: GenerateInput): object;
}

// Not written into the import: the package is an optional peer, which type checkers and bundlers must not insist on.
const packageName: string = '@aws-sdk/client-kms';

/** Loads the SDK (some 50 ms and 15 MB) and makes a client, which connects at its first call. */
export async function openAwsKms(options: AwsKmsClientOptions): Promise<AwsKms> {
  const sdk = await loadSdk();
  const client = new sdk.KMSClient({
    ...(options.region !== undefined && { region: options.region }),
    ...(options.endpoint !== undefined && { endpoint: options.endpoint }),
    maxAttempts: options.maxAttempts ?? 2,
    // Without these a service that hangs is waited for without end.
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
