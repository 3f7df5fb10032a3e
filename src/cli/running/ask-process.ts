import { ask } from '../../ground/http/ask-json.ts';
import {
  clientProof,
  isSameProof,
  newChallenge,
  proofHeader,
  proofKey,
  proofPartsIn,
  serverProof,
} from '../../ground/http/token-proof.ts';
import { printable } from '../../observe/printable.ts';
import { program } from '../wrong-use.ts';
import type { ManagedProcess } from './find-process.ts';

const timeoutMs = 5_000;
/** Of tens of thousands of series. */
const longestAnswerBytes = 32 * 1024 * 1024;

export interface ProcessAnswer {
  readonly status: number;
  readonly text: string;
  /** What the JSON says, an object; `undefined` for none. */
  readonly body: Readonly<Record<string, unknown>> | undefined;
}

/** Why a process could not be asked, with what to do: exit code 1. */
export class NoAnswer extends Error {}

/**
 * One request to the management server of a process. What it answers is no matter here, but for a token that it wants: that is proven
 * and never sent, for anybody may listen where no process of svc does any more.
 *
 * @param proves whether it is asked with a token, as far as there is one. Default: only where it wants one
 * @throws NoAnswer
 */
export async function askProcess(
  found: ManagedProcess,
  path: string,
  method: 'GET' | 'POST' = 'GET',
  proves = method === 'POST',
): Promise<ProcessAnswer> {
  const { url, token } = found;
  const bare = proves && token !== undefined ? undefined : await send(url, path, method);
  if (bare !== undefined && bare.status !== 401) return bare;
  if (token === undefined)
    throw new NoAnswer(
      `${url} needs a token: give --token-file, or set management.server.token as the process has it`,
    );
  const authorization = await proofFor(found, token, path, method);
  const answer = await send(url, path, method, { authorization });
  if (answer.status === 401) throw refusal(url, method);
  return answer;
}

async function send(
  url: string,
  path: string,
  method: 'GET' | 'POST',
  headers: Readonly<Record<string, string>> = {},
): Promise<ProcessAnswer & { readonly challenge: string | undefined }> {
  try {
    const answer = await ask({ ...{ url: `${url}${path}`, method, timeoutMs, longestAnswerBytes }, headers });
    const text = answer.bytes.toString();
    const challenge = answer.headers['www-authenticate'];
    return { status: answer.status, text, body: objectIn(text), challenge };
  } catch (error) {
    throw new NoAnswer(
      `no process answers at ${url} (${reasonOf(error as Error)}): --url or --pid names another`,
    );
  }
}

const proofKeys = new Map<string, Promise<Buffer>>();

function keyOf(token: string): Promise<Buffer> {
  const key = proofKeys.get(token) ?? proofKey(token);
  proofKeys.set(token, key);
  return key;
}

/** First the server proves that it has the token, and that it is the process that is meant. */
async function proofFor(
  { url, stamp }: ManagedProcess,
  token: string,
  path: string,
  method: 'GET' | 'POST',
): Promise<string> {
  const challenge = newChallenge();
  const answer = await send(url, path, method, { authorization: proofHeader({ challenge }) });
  const given = proofPartsIn(answer.challenge);
  const [nonce, process] = [given?.get('nonce'), given?.get('process')];
  if (answer.status !== 401 || given === undefined || nonce === undefined || process === undefined)
    throw new NoAnswer(
      `what answers at ${url} cannot prove that it is svc, and the token was not sent: --url or --pid names another process; one with an older svc needs commands of its version, and one without management.server.token takes none`,
    );
  const key = await keyOf(token);
  const parts = { challenge, nonce, process };
  const own = serverProof(key, parts);
  const isProven = [given.get('proof'), given.get('action-proof')].some(
    (proof) => proof !== undefined && isSameProof(proof, own),
  );
  if (!isProven) throw refusal(url, method);
  if (stamp !== undefined && stamp !== process)
    throw new NoAnswer(
      `what answers at ${url} is another process than its process file says: --url names one`,
    );
  return proofHeader({ challenge, nonce, proof: clientProof(key, parts, method, path) });
}

function refusal(url: string, method: 'GET' | 'POST'): NoAnswer {
  return new NoAnswer(
    `${url} refuses the token, or is another server (it was not sent): give that of management.server.token${method === 'POST' ? ' or action-token' : ''} of the process with --token-file`,
  );
}

/** @throws NoAnswer where another server, or an endpoint that is not exposed, has answered */
export function expectFound({ status }: ProcessAnswer, { url }: ManagedProcess, endpoint: string): void {
  if (status === 404)
    throw new NoAnswer(
      `${url} does not serve ${endpoint}: it is no svc, or ${endpoint} is not in management.endpoints.web.exposure.include`,
    );
}

/** A process of another version may know less, or more. */
export function sayOtherVersion(found: unknown, own: string): void {
  if (typeof found === 'string' && found !== own)
    process.stderr.write(
      `svc: the process runs svc ${printable(found)}, this command is of ${own}: what one of them does not know is missing. Run ${program} where the process was installed\n`,
    );
}

function objectIn(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

function reasonOf({ code = 'no HTTP' }: NodeJS.ErrnoException): string {
  return code === 'TIMEOUT' ? `nothing within ${timeoutMs / 1_000} s` : code;
}
