import { copyFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cacheFolder, checkoutFolder, ensureFolder } from './cache.ts';
import { type LocalProgram, type LocalServer, startLocalServer } from './local-server.ts';
import { makePythonEnvironment, pythonIn } from './python.ts';
import { Unavailable } from './unavailable.ts';

const MOTO_VERSION = '5.2.5';
const HOW_TO_GET_KMS =
  'install Python 3.9 or newer with venv, with PyPI in reach, or set KMS_ENDPOINT=http://host:port';

/** A server that speaks the API of AWS KMS. */
export interface KmsServer {
  readonly endpoint: string;
  /** `null` for the one named by KMS_ENDPOINT: it is not ours to stop. */
  readonly local: LocalServer | null;
}

export function kmsEndpointFromEnv(): string | undefined {
  return process.env.KMS_ENDPOINT?.trim() || undefined;
}

/** The server named by KMS_ENDPOINT, after it has answered; `null` when the variable is not set. Throws {@link Unavailable}. */
export async function useGivenKms(): Promise<KmsServer | null> {
  const endpoint = kmsEndpointFromEnv();
  if (endpoint === undefined) return null;
  const problem = await kmsProblem(endpoint);
  if (problem === null) return { endpoint, local: null };
  throw new Unavailable(
    `KMS_ENDPOINT names ${endpoint}, where no KMS answers: ${problem}`,
    'start that server, or unset KMS_ENDPOINT',
  );
}

/** moto in a Python environment of its own. Throws {@link Unavailable}. */
export async function ensureMoto(log: (line: string) => void): Promise<string> {
  const packages = {
    title: `moto ${MOTO_VERSION}`,
    // Not `moto[server]`, whose checkers for other services are three times as large.
    install: [`moto[kms]==${MOTO_VERSION}`, 'flask==3.1.3', 'flask-cors==6.0.5'],
  };
  try {
    return await ensureFolder(cacheFolder(`moto-${MOTO_VERSION}`), async (temporary) => {
      await makePythonEnvironment(temporary, packages, log);
    });
  } catch (error) {
    if (!(error instanceof Unavailable)) throw error;
    throw new Unavailable(`no KMS: ${error.message}`, HOW_TO_GET_KMS);
  }
}

/** Starts moto's KMS, its keys in memory only. Throws {@link Unavailable}. */
export async function startKmsServer(
  options: { keep?: boolean; log?: (line: string) => void } = {},
): Promise<KmsServer> {
  const moto = await ensureMoto(options.log ?? (() => {}));
  const local = await startLocalServer(motoProgram(pythonIn(moto)), options.keep);
  return { endpoint: local.address, local };
}

function motoProgram(python: string): LocalProgram {
  return {
    name: 'kms',
    async prepare(folder, port) {
      const script = join(folder, 'kms_server.py');
      await copyFile(join(checkoutFolder, 'scripts', 'services', 'kms_server.py'), script);
      return { program: python, args: [script, '-H', '127.0.0.1', '-p', String(port)] };
    },
    address: (port) => `http://127.0.0.1:${port}`,
    isReady: kmsProblem,
    portTaken: /Address already in use/i,
  };
}

/** Why a KMS cannot be used: any answer to a question of KMS, even a refusal, is one that speaks its protocol. */
export async function kmsProblem(endpoint: string): Promise<string | null> {
  try {
    const response = await fetch(endpoint, {
      method: 'POST',
      headers: {
        'content-type': 'application/x-amz-json-1.1',
        'x-amz-target': 'TrentService.ListKeys',
        // No signature: an answer is all that is asked for, and moto finds the service by this header.
        authorization:
          'AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/kms/aws4_request, SignedHeaders=host, Signature=0',
      },
      body: '{}',
      signal: AbortSignal.timeout(3_000),
    });
    const answer = await response.text();
    return /"Keys"|"__type"/.test(answer) ? null : `its answer (${response.status}) is not one of KMS`;
  } catch (error) {
    const { cause, message } = error as Error;
    return cause instanceof Error ? cause.message : message;
  }
}
