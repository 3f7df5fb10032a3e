import { type KmsServer, startKmsServer, useGivenKms } from '../../scripts/services/kms.ts';

export interface TestKms {
  readonly endpoint: string;
  readonly region: string;
  /** Makes a key, usable at once; its ARN. */
  createKey(): Promise<string>;
  createAlias(name: string, key: string): Promise<void>;
  /** Makes `alias/<name>` mean another key. */
  moveAlias(name: string, key: string): Promise<void>;
  disable(key: string): Promise<void>;
  enable(key: string): Promise<void>;
  scheduleDeletion(key: string): Promise<void>;
  /** Ends it. The shared one goes on until the end of the run. */
  stop(): Promise<void>;
}

let shared: Promise<KmsServer> | null = null;
const own = new Set<KmsServer>();
const log = (line: string): void => console.error(line);
const region = process.env.AWS_REGION ?? 'us-east-1';

/**
 * The KMS that all suites of this run share: the one of KMS_ENDPOINT, or one that is started at the first call. The AWS SDK
 * finds credentials in the environment; where there are none, test credentials are put there.
 */
export async function startKms(): Promise<TestKms> {
  process.env.AWS_ACCESS_KEY_ID ??= 'test';
  process.env.AWS_SECRET_ACCESS_KEY ??= 'moto-takes-any-secret';
  shared ??= useGivenKms().then((given) => given ?? startKmsServer({ log }));
  const server = await shared;
  return { ...testKms(server), stop: async () => {} };
}

/** A KMS of your own, to stop. Never the one of KMS_ENDPOINT. */
export async function startOwnKms(): Promise<TestKms> {
  const server = await startKmsServer({ log });
  own.add(server);
  return testKms(server);
}

interface AdminModule {
  readonly KMSClient: new (
    config: object,
  ) => { send(command: object): Promise<{ KeyMetadata?: { Arn: string } }> };
  readonly CreateKeyCommand: new (input: object) => object;
  readonly CreateAliasCommand: new (input: object) => object;
  readonly UpdateAliasCommand: new (input: object) => object;
  readonly DisableKeyCommand: new (input: object) => object;
  readonly EnableKeyCommand: new (input: object) => object;
  readonly ScheduleKeyDeletionCommand: new (input: object) => object;
}

const packageName: string = '@aws-sdk/client-kms';

function testKms(server: KmsServer): TestKms {
  const { endpoint } = server;
  const loading = import(packageName).then((sdk: AdminModule) => ({
    sdk,
    client: new sdk.KMSClient({ endpoint, region }),
  }));
  const admin = async (command: keyof Omit<AdminModule, 'KMSClient'>, input: object) => {
    const { sdk, client } = await loading;
    return client.send(new sdk[command](input));
  };
  return {
    endpoint,
    region,
    createKey: async () => (await admin('CreateKeyCommand', {})).KeyMetadata?.Arn ?? '',
    createAlias: async (name, key) =>
      void (await admin('CreateAliasCommand', { AliasName: `alias/${name}`, TargetKeyId: key })),
    moveAlias: async (name, key) =>
      void (await admin('UpdateAliasCommand', { AliasName: `alias/${name}`, TargetKeyId: key })),
    disable: async (key) => void (await admin('DisableKeyCommand', { KeyId: idOf(key) })),
    enable: async (key) => void (await admin('EnableKeyCommand', { KeyId: idOf(key) })),
    scheduleDeletion: async (key) =>
      void (await admin('ScheduleKeyDeletionCommand', { KeyId: idOf(key), PendingWindowInDays: 7 })),
    stop: async () => {
      own.delete(server);
      await server.local?.stop();
    },
  };
}

// moto takes ARNs for the use of keys, and only ids to change their state.
function idOf(arn: string): string {
  return arn.slice(arn.lastIndexOf('/') + 1);
}

// At the end of the run, whoever used it first. A run that is killed leaves nothing either: see scripts/services/guard.ts.
if (typeof after === 'function') {
  after('stop KMS', async () => {
    const servers = [...own, ...(shared ? [await shared.catch(() => null)] : [])];
    await Promise.all(servers.map((server) => server?.local?.stop()));
  });
}
