import { ask } from '../../ground/http/ask-json.ts';
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
 * One request to the management server of a process. What it answers is no matter here, but for a token that it wants.
 *
 * @throws NoAnswer
 */
export async function askProcess(
  { url, token }: ManagedProcess,
  path: string,
  method: 'GET' | 'POST' = 'GET',
): Promise<ProcessAnswer> {
  let status: number;
  let text: string;
  try {
    const answer = await ask({
      ...{ url: `${url}${path}`, method, timeoutMs, longestAnswerBytes },
      headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
    });
    [status, text] = [answer.status, answer.bytes.toString()];
  } catch (error) {
    throw new NoAnswer(
      `no process answers at ${url} (${reasonOf(error as Error)}): --url or --pid names another`,
    );
  }
  if (status === 401)
    throw new NoAnswer(
      token === undefined
        ? `${url} needs a token: give --token-file, or set management.server.token as the process has it`
        : `${url} refuses the token: give that of management.server.token${method === 'POST' ? ' or action-token' : ''} of the process with --token-file`,
    );
  return { status, text, body: objectIn(text) };
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
