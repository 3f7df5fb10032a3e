import { createHmac, randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { systemClock } from '../ground/clock.ts';
import {
  clientProof,
  isSameProof,
  type ProofParts,
  proofHeader,
  proofKey,
  proofPartsIn,
  serverProof,
} from '../ground/http/token-proof.ts';
import type { GuardPolicy, Rights } from './guard.ts';
import { hasBody } from './json-body.ts';
import { problem, type Reply } from './reply.ts';

/** A nonce is good for so long, once. */
const nonceMs = 30_000;
/** Nonces that were used and are not over yet: only whoever has a token uses any. */
const mostUsed = 1_000;

/** Proves to svc's own commands that this server has their token, and lets them prove the same: `token-proof.ts`. */
export interface Prover {
  /** The answer to a challenge; `undefined`: the request holds none, or there is no token to prove. */
  answer(request: IncomingMessage): Promise<Reply | undefined>;
  /** What a request may do by its proof; `undefined`: it holds none. */
  rightsOf(request: IncomingMessage): Promise<Rights | undefined>;
}

/** @param process names this process, as its process file does */
export function createProver({ token, actionToken }: GuardPolicy, process: string): Prover {
  const secret = randomBytes(32);
  const used = new Map<string, number>();
  const keyOf = async (text: string | undefined): Promise<Buffer | undefined> =>
    text === undefined ? undefined : proofKey(text);
  let keys: Promise<readonly [read: Buffer | undefined, act: Buffer | undefined]> | undefined;
  // Made at the first challenge: most processes never get any.
  const keysOf = (): NonNullable<typeof keys> => {
    keys ??= Promise.all([keyOf(token), keyOf(actionToken)]);
    return keys;
  };
  const nonceOf = (untilMs: number, challenge: string): string =>
    `${untilMs}.${createHmac('sha256', secret).update(`${untilMs} ${challenge}`).digest('hex')}`;

  /** Of this server, not over, and not used before. */
  function takeNonce(nonce: string, challenge: string): boolean {
    const [untilMs, nowMs] = [Number.parseInt(nonce, 10), systemClock.monotonic()];
    if (!isSameProof(nonce, nonceOf(untilMs, challenge)) || untilMs < nowMs) return false;
    for (const [each, overMs] of used) if (overMs < nowMs) used.delete(each);
    if (used.has(nonce) || used.size >= mostUsed) return false;
    used.set(nonce, untilMs);
    return true;
  }

  return {
    async answer({ headers }) {
      const given = proofPartsIn(headers.authorization);
      const challenge = given?.get('challenge');
      if (challenge === undefined || given?.has('proof')) return undefined;
      const [read, act] = await keysOf();
      if (read === undefined && act === undefined) return undefined;
      const nonce = nonceOf(Math.ceil(systemClock.monotonic()) + nonceMs, challenge);
      const parts: ProofParts = { challenge, nonce, process };
      const proofs = {
        proof: read && serverProof(read, parts),
        'action-proof': act && serverProof(act, parts),
      };
      return problem(401, 'Prove the token as well.', {
        'www-authenticate': proofHeader({ nonce, process, ...proofs }),
      });
    },

    async rightsOf(request) {
      const given = proofPartsIn(request.headers.authorization);
      const [challenge, nonce, proof] = ['challenge', 'nonce', 'proof'].map((name) => given?.get(name));
      if (challenge === undefined || nonce === undefined || proof === undefined) return undefined;
      const [read, act] = await keysOf();
      const parts: ProofParts = { challenge, nonce, process };
      const isBy = (key: Buffer | undefined): boolean =>
        key !== undefined &&
        isSameProof(proof, clientProof(key, parts, request.method ?? '', request.url ?? ''));
      const acts = isBy(act ?? read);
      // A body is not proven.
      if (hasBody(request) || !(acts || isBy(read)) || !takeNonce(nonce, challenge))
        return { read: 'wrong', act: 'wrong' };
      return { read: 'valid', act: acts ? 'valid' : 'wrong' };
    },
  };
}
