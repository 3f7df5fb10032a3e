import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { GetObjectCommand, ListObjectsV2Command, S3Client } from '@aws-sdk/client-s3';
import { bucketsFolder, type S3Server, startS3Server } from '../../scripts/services/s3.ts';
import { sharedMemoryStore } from '../../src/adapters/memory/memory-broker.ts';
import type { Outcome } from '../../src/observe/outcomes.ts';
import { assertSilent, canarySecrets, marked, throwing } from '../protect/canary.ts';
import { type CanaryCage, eventCount, openCanaryCage } from '../protect/canary-cage.ts';
import { keepEnvironment } from '../support/environment.ts';
import { startOwnKms, type TestKms } from '../support/kms.ts';
import { requiring } from '../support/requires.ts';
import { type OwnVault, startOwnVault } from '../support/vault.ts';

/** Where events can end, with the configuration that brings them there. */
interface Sink {
  /** What every event that is not refused is counted as. */
  readonly outcome: Exclude<Outcome, 'refused' | 'lost'>;
  /** The configuration below `svc.broker`. */
  broker(): object;
  /** Further settings below `svc`. */
  more?(): object;
  /** All that lies there, as text. */
  content(): string | Promise<string>;
}

/** What is the matter with the keys or the payload. */
interface Fault {
  readonly pii: () => object;
  /** What health says before the first event; keys of a service are waited for. */
  readonly health: 'UP' | 'DOWN';
  readonly beforeStart?: () => Promise<void>;
  readonly beforeEvents?: () => Promise<void>;
  readonly end?: () => Promise<void>;
  readonly failing?: () => object;
  /** Events that are refused, whatever the sink; those with nothing to encrypt go on. */
  readonly refused: number;
}

const vaultKey = 'customer';

requiring(['own-kms', 'own-vault', 'own-s3'], 'canary: every sink, with keys of real services', function () {
  this.timeout(60_000);
  const restoreEnvironment = keepEnvironment();
  const cage: CanaryCage = openCanaryCage();
  let kms: TestKms;
  let stopped: TestKms;
  let keys: Record<'customer' | 'disabled', string>;
  let vault: OwnVault;
  let mount: string;
  let s3: S3Server;
  let runs = 0;

  before(async () => {
    s3 = await startS3Server();
    // moto takes any credentials.
    process.env.AWS_ACCESS_KEY_ID = s3.accessKey;
    process.env.AWS_SECRET_ACCESS_KEY = s3.secretKey;
    [kms, stopped, vault] = await Promise.all([startOwnKms(), startOwnKms(), startOwnVault()]);
    keys = { customer: await kms.createKey(), disabled: await kms.createKey() };
    await kms.disable(keys.disabled);
    await stopped.stop();
    mount = await vault.mount('transit');
    await vault.call('POST', `${mount}/keys/${vaultKey}`, {});
  });
  after(async () => {
    restoreEnvironment();
    await Promise.all([kms?.stop(), vault?.stop(), s3?.local?.stop()]);
  });

  const placeOf = (name: string): string => join(cage.folder, `${name}-${runs}`);
  /** The topic cannot be written, as there is a directory in its place. */
  const failingTopic = (): object => {
    const path = placeOf('topics');
    mkdirSync(join(path, 'canary.ndjson'), { recursive: true });
    return { client: 'file', file: { path } };
  };
  const local = (backup: object, fileName: RegExp): Sink => ({
    outcome: 'backup',
    broker: () => ({
      ...failingTopic(),
      dlqBackupPath: placeOf('backup'),
      backup: { drain: { enabled: false }, ...backup },
    }),
    content() {
      const content = contentOf(placeOf('backup'));
      assert.match(content, fileName);
      return content;
    },
  });
  const dead = (dlqFormat: string): Sink => ({
    outcome: 'dlq',
    broker: () => ({ ...failingTopic(), dlqTopic: 'dead', dlqFormat }),
    content: () => readFileSync(join(placeOf('topics'), 'dead.ndjson'), 'utf8'),
  });

  const sinks: Readonly<Record<string, Sink>> = {
    'a topic': {
      outcome: 'published',
      broker: () => ({ client: 'memory' }),
      content: () =>
        sharedMemoryStore()
          .all()
          .map(({ record }) => String(record.value))
          .join('\n'),
    },
    'dead letters of operations': dead('operations'),
    'dead letters of recovery': dead('recovery'),
    'backup files with the event': local({ format: 'event' }, /\/\d+\.json\n/),
    'backup files with the record': local({ format: 'record' }, /\/\d+.*\.json\n/),
    'backup segments': local({}, /\/segment-.*\.ndjson/),
    'objects in S3': {
      outcome: 'backup',
      broker: () => {
        const s3Bucket = `canary-${runs}`;
        mkdirSync(join(bucketsFolder(s3.local ?? assert.fail()), s3Bucket));
        const backup = { s3Enabled: true, s3Bucket, s3Endpoint: s3.endpoint, localEnabled: false };
        return { ...failingTopic(), backup };
      },
      content: () => objectsOf(`canary-${runs}`, s3.endpoint),
    },
  };

  const fields = ['**.customer.email', 'contacts[*].phone=PHONE:ENCRYPT'];
  const { key: defaultKey, salt } = canarySecrets;
  const ofKms = (server: () => TestKms, key: () => string | undefined) => () => {
    const aws = { endpoint: server().endpoint, region: server().region, defaultKeyArn: key() };
    return { fields, crypto: { salt }, kms: { enabled: true, type: 'aws', aws } };
  };
  const ofVault = () => {
    const { address, token } = vault;
    const settings = { address, token, mode: 'transit', mountPath: mount, defaultKeyPath: vaultKey };
    return { fields, crypto: { salt }, kms: { enabled: true, type: 'vault', vault: settings } };
  };
  /** Those with a key that shows a value, and with an expression that throws. */
  const always = 2;
  /** All but those with nothing to encrypt in them. */
  const encrypted = eventCount - 2;

  const faults: Readonly<Record<string, Fault>> = {
    'when nothing is the matter': {
      pii: ofKms(
        () => kms,
        () => keys.customer,
      ),
      health: 'UP',
      refused: always,
    },
    'when KMS cannot be reached': {
      pii: ofKms(
        () => stopped,
        () => keys.customer,
      ),
      health: 'DOWN',
      refused: encrypted,
    },
    'when the KMS key is disabled': {
      pii: ofKms(
        () => kms,
        () => keys.disabled,
      ),
      health: 'DOWN',
      refused: encrypted,
    },
    'when Vault is sealed': {
      pii: () => ofVault(),
      health: 'DOWN',
      beforeStart: () => vault.seal(),
      end: () => vault.unseal(),
      refused: encrypted,
    },
    'when Vault is sealed after the start': {
      pii: () => ofVault(),
      health: 'UP',
      beforeEvents: () => vault.seal(),
      end: () => vault.unseal(),
      refused: always,
    },
    'when there is no key for a mark': {
      pii: () => ({ fields: fields.map((path) => path.replace(':ENCRYPT', '')), crypto: { salt } }),
      health: 'DOWN',
      refused: encrypted - 1,
    },
    'when a getter throws': {
      pii: () => ({ fields, crypto: { defaultKey, salt } }),
      health: 'UP',
      failing: () => ({
        get email() {
          return throwing();
        },
      }),
      refused: always + 1,
    },
  };

  for (const [where, sink] of Object.entries(sinks)) {
    for (const [what, fault] of Object.entries(faults)) {
      it(`is not seen in ${where} ${what}`, async () => {
        runs++;
        await fault.beforeStart?.();
        try {
          cage.run(fault.pii(), sink.broker(), sink.more?.());
          const Person = marked({ phone: 'ENCRYPT', card: 'HASH', iban: 'EXCLUDE' });
          await cage.healthIs(fault.health);
          await fault.beforeEvents?.();
          const thrown = await cage.publishAll(Person, fault.failing?.() ?? new Person());
          const counts = await cage.counts();
          const { calls, refused, [sink.outcome]: stored } = counts;
          assert.deepEqual(
            { calls, refused, stored, thrown: thrown.length },
            {
              calls: eventCount,
              refused: fault.refused,
              stored: eventCount - fault.refused,
              thrown: fault.refused,
            },
          );
          assert.equal(
            stored + refused,
            eventCount,
            `one outcome each, and no other: ${JSON.stringify(counts)}`,
          );
          const content = await sink.content();
          assertSilent(where, content, [vault.token, s3.secretKey]);
          assert.equal(content.includes('ENC('), fault.health === 'UP', content.slice(0, 500));
          assert.match(content, /ca\*+@ca\*+\.com/, 'what has nothing to encrypt goes on');
          await cage.assertNothingShown(thrown, [vault.token, s3.secretKey]);
        } finally {
          await fault.end?.();
        }
      });
    }
  }
});

async function objectsOf(Bucket: string, endpoint: string): Promise<string> {
  const client = new S3Client({ endpoint, forcePathStyle: true, region: 'us-east-1' });
  const objects: string[] = [];
  const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket }));
  for (const { Key } of Contents) {
    const { Metadata, Body } = await client.send(new GetObjectCommand({ Bucket, Key }));
    objects.push(`${Key}\n${JSON.stringify(Metadata)}\n${await Body?.transformToString()}`);
  }
  client.destroy();
  return objects.join('\n');
}

function contentOf(folder: string): string {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isFile())
    .map((path) => `${path}\n${readFileSync(path, 'utf8')}`)
    .join('\n');
}
