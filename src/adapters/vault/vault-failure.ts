import type { SvcError } from '../../ground/errors.ts';
import type { JsonAnswer } from '../../ground/http/ask-json.ts';
import { keyProviderError } from '../../protect/keys/key-provider.ts';
import type { VaultEngine } from './vault-options.ts';

/** What was asked for, for messages. */
export interface VaultQuestion {
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

/** One line for an operator. The text of an answer is compared with what is known, and never told. */
export function answerError(answer: JsonAnswer, question: VaultQuestion): SvcError {
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
    return ['refused', `it answers with a redirect (${status}), which is not followed: correct the address`];
  return ['unavailable', `it answers with status ${status}`];
}

function judgeBadRequest(errors: string, { path }: VaultQuestion): Verdict {
  if (errors.includes('encryption key not found')) return ['refused', `there is no Transit key for ${path}`];
  if (errors.includes('too old'))
    return ['refused', `the data key is older than the min_decryption_version of its Transit key (${path})`];
  if (errors.includes('invalid ciphertext') || errors.includes('message authentication failed'))
    return ['mismatch', `the encrypted data key is damaged, or another Transit key made it (${path})`];
  if (errors.includes('not supported for key type'))
    return ['refused', `the Transit key is not one for encryption (${path})`];
  return ['refused', `it does not accept the request for ${path} (400)`];
}

function judgeForbidden(errors: string, { path }: VaultQuestion): Verdict {
  // OpenBao tells of a bad token with these two words alone, Vault with a second error; older ones do not tell them apart.
  if (errors === 'permission denied' || errors.includes('invalid token'))
    return ['refused', 'permission denied: the token is wrong or has expired, or its namespace is another'];
  return ['refused', `permission denied: no policy of the token allows ${path}`];
}

function judgeNotFound(body: unknown, errors: string, { path, engine }: VaultQuestion): Verdict {
  if (errors.includes('no handler for route')) return ['refused', `nothing is mounted for ${path}`];
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

/** Why there was no whole answer at all. */
export function transportError(thrown: unknown, address: string): SvcError {
  const { code } = thrown as NodeJS.ErrnoException;
  const word = typeof code === 'string' && /^\w{1,60}$/.test(code) ? code : 'unknown error';
  const [kind, why] = judgeTransport(word);
  return keyProviderError(codes[kind], `Vault at ${address}: ${why}`);
}

function judgeTransport(code: string): Verdict {
  if (code === 'TIMEOUT') return ['unavailable', 'it has not answered in time'];
  if (code === 'TOO_LARGE') return ['unavailable', 'its answer is too large for one of Vault'];
  if (code === 'NOT_JSON') return ['unavailable', 'its answer is not JSON: is that a Vault?'];
  if (code === 'ERR_INVALID_CHAR')
    return ['refused', 'the token or namespace has characters that no HTTP header can carry'];
  if (/CERT|SIGNATURE|SELF_SIGNED|ERR_TLS/.test(code))
    return [
      'refused',
      `its certificate is not trusted (${code}): name its authority in svc.pii.kms.vault.ca-file`,
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
