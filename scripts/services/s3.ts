import { mkdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { cacheFolder, ensureFolder } from './cache.ts';
import { lastLines, runCommand } from './commands.ts';
import { type LocalProgram, type LocalServer, startLocalServer } from './local-server.ts';
import { Unavailable } from './unavailable.ts';

const VERSION = 'v1.8.0';
const MODULE = 'github.com/versity/versitygw/cmd/versitygw';
const BUILD_TIMEOUT_MS = 9 * 60_000;
const HOW_TO_GET_S3 =
  'install Go 1.24 or newer, with its module proxy in reach, or set S3_ENDPOINT=http://host:port, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY';

/** The credentials of every S3 server that is started here: it listens on loopback, and holds test data only. */
export const S3_ACCESS_KEY = 'svc-test-key';
export const S3_SECRET_KEY = 'svc-test-secret';

/** A server that speaks the API of S3, checks signatures and does conditional puts. */
export interface S3Server {
  readonly endpoint: string;
  readonly accessKey: string;
  readonly secretKey: string;
  /** `null` for the one named by S3_ENDPOINT: it is not ours to stop. */
  readonly local: LocalServer | null;
}

export function s3EndpointFromEnv(): string | undefined {
  return process.env.S3_ENDPOINT?.trim() || undefined;
}

/** The server named by S3_ENDPOINT, after it has answered; `null` when the variable is not set. Throws {@link Unavailable}. */
export async function useGivenS3(): Promise<S3Server | null> {
  const endpoint = s3EndpointFromEnv();
  if (endpoint === undefined) return null;
  const problem = await s3Problem(endpoint);
  if (problem !== null) {
    throw new Unavailable(
      `S3_ENDPOINT names ${endpoint}, where no S3 answers: ${problem}`,
      'start that server, or unset S3_ENDPOINT',
    );
  }
  const { AWS_ACCESS_KEY_ID: accessKey = S3_ACCESS_KEY, AWS_SECRET_ACCESS_KEY: secretKey = S3_SECRET_KEY } =
    process.env;
  return { endpoint, accessKey, secretKey, local: null };
}

/** The path of versitygw, built with Go when it is not there yet (about a minute, once). Throws {@link Unavailable}. */
export async function ensureVersitygw(log: (line: string) => void): Promise<string> {
  const folder = await ensureFolder(cacheFolder(`versitygw-${VERSION}`), async (temporary) => {
    if ((await runCommand('go', ['version'], { timeoutMs: 20_000 })).code !== 0) {
      throw new Unavailable('no S3 server: there is no Go to build one', HOW_TO_GET_S3);
    }
    log(`versitygw ${VERSION}: building it with Go (about a minute, once)`);
    const env = { ...process.env, GOBIN: temporary, GOFLAGS: '-buildvcs=false', CGO_ENABLED: '0' };
    // Neither optimized nor with debug information: a third less of the time that the build takes.
    const args = ['install', '-gcflags=all=-N -l', '-ldflags=-s -w', `${MODULE}@${VERSION}`];
    const { code, stderr } = await runCommand('go', args, { env, timeoutMs: BUILD_TIMEOUT_MS });
    if (code !== 0)
      throw new Unavailable(`no S3 server: Go could not build it:\n${lastLines(stderr)}`, HOW_TO_GET_S3);
  });
  return join(folder, 'versitygw');
}

/** Starts versitygw with buckets as folders of its own. Throws {@link Unavailable}. */
export async function startS3Server(
  options: { keep?: boolean; log?: (line: string) => void } = {},
): Promise<S3Server> {
  const versitygw = await ensureVersitygw(options.log ?? (() => {}));
  const local = await startLocalServer(versitygwProgram(versitygw), options.keep);
  return { endpoint: local.address, accessKey: S3_ACCESS_KEY, secretKey: S3_SECRET_KEY, local };
}

/** Where the buckets of a server that was started here lie, as folders: a test can make, look at and damage them. */
export function bucketsFolder({ instance }: LocalServer): string {
  return join(instance.folder, 'buckets');
}

function versitygwProgram(versitygw: string): LocalProgram {
  return {
    name: 's3',
    async prepare(folder, port) {
      const program = join(folder, 'versitygw');
      await symlink(versitygw, program);
      for (const name of ['iam', 'buckets']) await mkdir(join(folder, name));
      const access = ['--access', S3_ACCESS_KEY, '--secret', S3_SECRET_KEY];
      // Without a folder of users, an unknown key id is answered unlike S3 does. It changes its directory: absolute paths.
      const args = [
        ...access,
        '--port',
        `127.0.0.1:${port}`,
        '--iam-dir',
        join(folder, 'iam'),
        '--quiet',
        'posix',
      ];
      return { program, args: [...args, join(folder, 'buckets')] };
    },
    address: (port) => `http://127.0.0.1:${port}`,
    isReady: s3Problem,
    portTaken: /address already in use/i,
  };
}

/** Why an S3 cannot be used: any answer in its form, even a refusal, is one that speaks its protocol. */
export async function s3Problem(endpoint: string): Promise<string | null> {
  try {
    const response = await fetch(endpoint, { signal: AbortSignal.timeout(3_000) });
    const answer = await response.text();
    return /<Error>|ListAllMyBucketsResult/.test(answer)
      ? null
      : `its answer (${response.status}) is not one of S3`;
  } catch (error) {
    const { cause, message } = error as Error;
    return cause instanceof Error ? cause.message : message;
  }
}
