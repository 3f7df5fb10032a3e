import { readFile, symlink } from 'node:fs/promises';
import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { join } from 'node:path';
import { ensureBao } from './bao.ts';
import { type LocalProgram, type LocalServer, startLocalServer } from './local-server.ts';
import { Unavailable } from './unavailable.ts';

/** The root token of every OpenBao that is started here: it listens on loopback, and holds test data only. */
export const VAULT_ROOT_TOKEN = 'svc-test-root-token';

/** A server that speaks the HTTP API of Vault. */
export interface VaultServer {
  readonly address: string;
  readonly token: string;
  /** PEM file of the authority to trust, of one with TLS. */
  readonly caFile: string | null;
  /** What opens it again after it was sealed. */
  readonly unsealKey: string | null;
  /** `null` for the one named by VAULT_ADDR: it is not ours to seal or stop. */
  readonly local: LocalServer | null;
}

/** VAULT_ADDR and VAULT_TOKEN, where both are set. */
export function vaultFromEnv(): { address: string; token: string } | undefined {
  const [address, token] = [process.env.VAULT_ADDR?.trim(), process.env.VAULT_TOKEN?.trim()];
  return address && token ? { address: address.replace(/\/+$/, ''), token } : undefined;
}

/** The server named by VAULT_ADDR and VAULT_TOKEN, after it has answered; `null` when unset. Throws {@link Unavailable}. */
export async function useGivenVault(): Promise<VaultServer | null> {
  const given = vaultFromEnv();
  if (given === undefined) return null;
  const problem = await vaultProblem(given.address, null);
  if (problem === null) return { ...given, caFile: null, unsealKey: null, local: null };
  throw new Unavailable(
    `VAULT_ADDR names ${given.address}, which cannot be used: ${problem}`,
    'start and unseal that Vault, or unset VAULT_ADDR',
  );
}

export interface VaultStartOptions {
  /** Listens with TLS, and a certificate that no system trusts. Default false. */
  readonly tls?: boolean;
  readonly keep?: boolean;
  readonly log?: (line: string) => void;
}

/** Starts OpenBao in its development mode: in memory, unsealed, K/V v2 mounted at `secret/`. Throws {@link Unavailable}. */
export async function startVaultServer(options: VaultStartOptions = {}): Promise<VaultServer> {
  const bao = await ensureBao(options.log ?? (() => {}));
  const tls = options.tls ?? false;
  const local = await startLocalServer(baoProgram(bao, tls), options.keep);
  const unsealKey = /^Unseal Key: (\S+)$/m.exec(await readFile(local.logFile, 'utf8'))?.[1];
  if (unsealKey === undefined) throw new Error('OpenBao has not told its unseal key');
  const caFile = tls ? caFileIn(local.instance.folder) : null;
  return { address: local.address, token: VAULT_ROOT_TOKEN, caFile, unsealKey, local };
}

function baoProgram(bao: string, tls: boolean): LocalProgram {
  return {
    name: 'vault',
    async prepare(folder, port) {
      const program = join(folder, 'bao');
      await symlink(bao, program);
      const args = ['server', '-dev', '-dev-no-store-token', `-dev-root-token-id=${VAULT_ROOT_TOKEN}`];
      args.push(`-dev-listen-address=127.0.0.1:${port}`);
      if (tls) args.push('-dev-tls', `-dev-tls-cert-dir=${folder}`);
      return { program, args };
    },
    address: (port) => `${tls ? 'https' : 'http'}://127.0.0.1:${port}`,
    async isReady(address, folder) {
      const log = await readFile(join(folder, 'vault.log'), 'utf8').catch(() => '');
      // It answers before `secret/` is mounted; this is the last line that development mode writes.
      if (!/Development mode should NOT be used/.test(log)) return 'it has not told its keys';
      return vaultProblem(address, tls ? caFileIn(folder) : null);
    },
    portTaken: /address already in use/i,
  };
}

function caFileIn(folder: string): string {
  return join(folder, 'vault-ca.pem');
}

/** Why a Vault cannot be used, `null` when it is unsealed and active. */
export async function vaultProblem(address: string, caFile: string | null): Promise<string | null> {
  try {
    const ca = caFile === null ? undefined : await readFile(caFile);
    const status = await statusOf(`${address}/v1/sys/health`, ca);
    if (status === 503) return 'it is sealed';
    return status === 200 ? null : `its health answers ${status}`;
  } catch (error) {
    return (error as Error).message || String((error as NodeJS.ErrnoException).code);
  }
}

function statusOf(url: string, ca: Buffer | undefined): Promise<number> {
  const request = url.startsWith('https:') ? httpsRequest : httpRequest;
  return new Promise((resolve, reject) => {
    const sent = request(url, { ca, timeout: 3_000, agent: false }, (answer) => {
      answer.resume();
      resolve(answer.statusCode ?? 0);
    });
    sent.once('timeout', () => sent.destroy(new Error('no answer within 3 s')));
    sent.once('error', reject);
    sent.end();
  });
}
