import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import {
  startVaultServer,
  useGivenVault,
  type VaultServer,
  type VaultStartOptions,
} from '../../scripts/services/vault.ts';

export interface TestVault {
  readonly address: string;
  /** May do everything. */
  readonly token: string;
  /** PEM file of the authority to trust, of one with TLS. Nothing else on the machine trusts it. */
  readonly caFile: string | null;
  /** Any call of the HTTP API with the token; the `data` of the answer. Throws unless the status is 2xx. */
  call(method: string, path: string, body?: object): Promise<Record<string, unknown>>;
  /** Mounts an engine at a new path, and returns that path. */
  mount(type: 'transit' | 'kv-v1' | 'kv-v2'): Promise<string>;
  /** A token with one policy of its own, in the language of policies. */
  createToken(policy: string, options?: { ttl?: string }): Promise<string>;
}

/** A Vault that a test may hurt. */
export interface OwnVault extends TestVault {
  seal(): Promise<void>;
  unseal(): Promise<void>;
  /** Freezes it: connections stay open and nothing answers, until `resume`. */
  pause(): Promise<void>;
  resume(): void;
  stop(): Promise<void>;
}

const shared = new Map<string, Promise<VaultServer>>();
const own = new Set<VaultServer>();
const log = (line: string): void => console.error(line);

/** The Vault that all suites of this run share: the one of VAULT_ADDR, or one that is started; with `tls` always that. */
export async function startVault({ tls = false }: Pick<VaultStartOptions, 'tls'> = {}): Promise<TestVault> {
  const key = String(tls);
  const start = (): Promise<VaultServer> => startVaultServer({ tls, log });
  const server = shared.get(key) ?? (tls ? start() : useGivenVault().then((given) => given ?? start()));
  shared.set(key, server);
  return testVault(await server);
}

/** A Vault of your own, to seal and stop. Never the one of VAULT_ADDR. */
export async function startOwnVault(options: Pick<VaultStartOptions, 'tls'> = {}): Promise<OwnVault> {
  const server = await startVaultServer({ ...options, log });
  own.add(server);
  const vault = testVault(server);
  return {
    ...vault,
    seal: async () => void (await vault.call('PUT', 'sys/seal')),
    unseal: async () => void (await vault.call('PUT', 'sys/unseal', { key: server.unsealKey })),
    pause: async () => server.local?.pause(),
    resume: () => server.local?.resume(),
    stop: async () => {
      own.delete(server);
      await server.local?.stop();
    },
  };
}

function testVault({ address, token, caFile }: VaultServer): TestVault {
  async function call(method: string, path: string, body?: object): Promise<Record<string, unknown>> {
    const ca = caFile === null ? undefined : await readFile(caFile);
    const { status, text } = await send({ url: `${address}/v1/${path}`, method, token, body, ca });
    if (status < 200 || status > 299) throw new Error(`${method} ${path} answers ${status}: ${text}`);
    return text === '' ? {} : JSON.parse(text);
  }
  return {
    address,
    token,
    caFile,
    call: async (method, path, body) => (await call(method, path, body)).data as Record<string, unknown>,
    async mount(type) {
      const path = `${type}-${randomUUID().slice(0, 8)}`;
      const [engine, version] = type.split('-v');
      await call('POST', `sys/mounts/${path}`, { type: engine, ...(version && { options: { version } }) });
      return path;
    },
    async createToken(policy, { ttl } = {}) {
      const name = `test-${randomUUID()}`;
      await call('PUT', `sys/policies/acl/${name}`, { policy });
      const options = { policies: [name], no_default_policy: true, ...(ttl && { ttl }) };
      const { auth } = await call('POST', 'auth/token/create', options);
      return (auth as { client_token: string }).client_token;
    },
  };
}

interface Question {
  url: string;
  method: string;
  token: string;
  body: object | undefined;
  ca: Buffer | undefined;
}

function send({ url, method, token, body, ca }: Question): Promise<{ status: number; text: string }> {
  const open = url.startsWith('https:') ? requestHttps : requestHttp;
  return new Promise((resolve, reject) => {
    const request = open(url, { method, ca, agent: false, headers: { 'x-vault-token': token } }, (answer) => {
      const chunks: Buffer[] = [];
      answer.on('data', (chunk: Buffer) => chunks.push(chunk));
      answer.once('error', reject);
      answer.once('end', () => {
        resolve({ status: answer.statusCode ?? 0, text: Buffer.concat(chunks).toString() });
      });
    });
    request.once('error', reject);
    request.end(body && JSON.stringify(body));
  });
}

// At the end of the run, whoever used it first. A run that is killed leaves nothing either: see scripts/services/guard.ts.
if (typeof after === 'function') {
  after('stop Vault', async () => {
    const started = await Promise.all([...shared.values()].map((each) => each.catch(() => null)));
    await Promise.all([...own, ...started].map((server) => server?.local?.stop()));
  });
}
