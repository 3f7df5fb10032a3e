import { SvcError } from '../../ground/errors.ts';
import { keyProviderError } from '../../protect/keys/key-provider.ts';

const credentials =
  'the credentials are not valid: check the keys, the session and the clock of this machine';

/** What no later try will change, by the SDK's name of the error. */
const refusals: Readonly<Record<string, string>> = {
  AccessDeniedException:
    'access denied: the policies must allow kms:GenerateDataKey (a reader: kms:Decrypt) on it, with this encryption context',
  DisabledException: 'the key is disabled: enable it in KMS',
  KMSInvalidStateException: 'the key cannot be used in its state (pending deletion or import)',
  NotFoundException: 'there is no such key in this account and region: check svc.pii.kms.keys and the region',
  InvalidArnException: 'that is not the ARN of a key',
  InvalidKeyUsageException: 'the key is not one for encryption (SYMMETRIC_DEFAULT)',
  InvalidGrantTokenException: 'a grant is not valid',
  ValidationException: 'KMS does not accept the request: check the id of the key',
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

/** One line for an operator. Of the SDK's error only its name is told: its text can quote the request. */
export function toKeyProviderError(thrown: unknown, key: string): SvcError {
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

// Connections fail with a system code (ECONNREFUSED) under names that say nothing.
function nameOf({ name, code }: SdkError): string {
  const word = typeof code === 'string' ? code : name;
  return typeof word === 'string' && /^\w{1,60}$/.test(word) ? word : 'unknown error';
}

function configurationFault({ message }: SdkError): string | undefined {
  if (message === 'Region is missing')
    return 'no region is configured: set svc.pii.kms.aws.region or AWS_REGION';
  return undefined;
}
