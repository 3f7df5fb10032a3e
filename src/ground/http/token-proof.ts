import { createHmac, randomBytes, scrypt, timingSafeEqual } from 'node:crypto';

/**
 * How svc's own commands show the management server that they have its token, without sending it. Whoever listens at a port learns
 * nothing to use elsewhere:
 *
 * 1. `Authorization: SvcProof challenge="…"`, which holds nothing of the token;
 * 2. 401 with `WWW-Authenticate: SvcProof nonce="…", process="…", proof="…"`: a server that has the token proves it, and which process it is;
 * 3. `Authorization: SvcProof challenge="…", nonce="…", proof="…"`: the command proves it as well, for this method and path alone.
 */
export const proofScheme = 'SvcProof';

/** What both proofs are made of. */
export interface ProofParts {
  readonly challenge: string;
  readonly nonce: string;
  /** The process that answers: host, number and begin. */
  readonly process: string;
}

/** Slow to make, so that a token cannot be guessed from a proof in bulk. */
export function proofKey(token: string): Promise<Buffer> {
  return new Promise((resolve, reject) =>
    scrypt(token, 'svc management', 32, (error, key) => (error ? reject(error) : resolve(key))),
  );
}

export function serverProof(key: Buffer, parts: ProofParts): string {
  return mac(key, ['server', parts.challenge, parts.nonce, parts.process]);
}

/** `path`: below the URL of the server, with its query. */
export function clientProof(key: Buffer, parts: ProofParts, method: string, path: string): string {
  return mac(key, ['client', parts.challenge, parts.nonce, parts.process, method, path]);
}

export const newChallenge = (): string => randomBytes(16).toString('hex');

export function isSameProof(one: string, other: string): boolean {
  const [left, right] = [Buffer.from(one), Buffer.from(other)];
  return left.length === right.length && timingSafeEqual(left, right);
}

export function proofHeader(parts: Readonly<Record<string, string | undefined>>): string {
  const given = Object.entries(parts).filter(([, value]) => value !== undefined);
  return `${proofScheme} ${given.map(([name, value]) => `${name}="${value}"`).join(', ')}`;
}

/** The parts of a header of this scheme; `undefined` of any other. */
export function proofPartsIn(header: string | undefined): ReadonlyMap<string, string> | undefined {
  if (header === undefined || header.length > 1_000 || !header.startsWith(`${proofScheme} `))
    return undefined;
  const parts = header.slice(proofScheme.length).matchAll(/([a-z-]+)="([\w.-]{1,200})"/g);
  return new Map([...parts].map(([, name, value]) => [name as string, value as string]));
}

function mac(key: Buffer, parts: readonly string[]): string {
  return createHmac('sha256', key).update(JSON.stringify(parts)).digest('hex');
}
