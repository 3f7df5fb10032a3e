import assert from 'node:assert/strict';
import { startKms, type TestKms } from '../../support/kms.ts';
import { installPacked } from '../../support/packed.ts';
import { requiring } from '../../support/requires.ts';
import { startVault, type TestVault } from '../../support/vault.ts';
import { otelEnvironment } from '../support/otel-app.ts';
import { type AppEnd, endOf } from '../support/start-app.ts';
import { otelPackages, subject } from '../support/subject.ts';
import { configOf } from '../support/topic-config.ts';

const { otel } = await subject();

/** Every instrumentation there is, those of `http` and of the AWS SDK among them. */
const sdk = `
  const { NodeSDK } = require('@opentelemetry/sdk-node');
  const { getNodeAutoInstrumentations } = require('@opentelemetry/auto-instrumentations-node');
  globalThis.spans = [];
  new NodeSDK({
    instrumentations: [getNodeAutoInstrumentations()],
    spanProcessors: [{
      onStart() {}, onEnd: ({ name }) => spans.push(name), forceFlush: async () => {}, shutdown: async () => {},
    }],
  }).start();`;

/**
 * Publishes until the key is there and was replaced twice, decrypts, and then makes one call to the service by itself: what
 * that leaves in \`spans\` and topic shows that calls are seen at all.
 */
const main = (provider: string, ownCall: string): string => `
  const { createDecryptionKeys, decryptFields } = require('svc/consumer');
  const { publish } = require('svc');
  ${provider}
  const texts = new Set();
  const keyOf = (text) => text.slice(0, 60);
  async function main() {
    const { readFileSync } = require('node:fs');
    const ends = Date.now() + 15_000;
    for (let id = 1; texts.size < 3 && Date.now() < ends; id++) {
      await publish({ id, email: 'ada@example.com' }, { eventType: 'SIGNED_UP' }).catch(() => {});
      await new Promise((resolve) => setTimeout(resolve, 50));
      let lines = [];
      try { lines = readFileSync('svc-topics/events.ndjson', 'utf8').trim().split('\\n'); } catch {}
      for (const line of lines) texts.add(keyOf(JSON.parse(line).value.payload.email ?? ''));
    }
    const [first] = readFileSync('svc-topics/events.ndjson', 'utf8').split('\\n');
    const keys = createDecryptionKeys({ provider, keyIds: ['customer'] });
    const { payload } = await decryptFields(JSON.parse(first).value, keys, { only: ['email'] });
    await keys.close();
    const before = spans.splice(0);
    ${ownCall}
    console.log(JSON.stringify({ dataKeys: texts.size, email: payload.email, before, own: spans }));
  }
  main();`;

interface Seen {
  readonly dataKeys: number;
  readonly email: string;
  readonly before: readonly string[];
  readonly own: readonly string[];
}

function seenIn({ stdout, stderr }: AppEnd): Seen {
  const line = stdout.split('\n').find((each) => each.startsWith('{"dataKeys"'));
  return JSON.parse(line ?? assert.fail(`${stdout}\n${stderr}`)) as Seen;
}

function run(files: Record<string, string | object>): Promise<AppEnd> {
  return endOf({
    app: installPacked(`key-service-otel-${otel}`, {
      ...otelPackages[otel].auto,
      '@aws-sdk/client-kms': '^3.1162.0',
    }),
    args: ['--require', './sdk.cjs', '--require', 'svc/register', 'main.cjs'],
    env: {
      ...otelEnvironment,
      NODE_NO_WARNINGS: '1',
      AWS_ACCESS_KEY_ID: 'test',
      AWS_SECRET_ACCESS_KEY: 'test',
      PII_HASH_SALT: 'a salt of 16 bytes',
    },
    files: { 'sdk.cjs': sdk, ...files },
    timeoutMs: 40_000,
  });
}

/** svc's own spans, one an event, are all there is before the application makes a call. */
function assertOnlyEvents({ before }: Seen): void {
  assert.ok(before.length >= 3, before.join());
  assert.deepEqual([...new Set(before)], ['send events']);
}

const fields = [{ path: 'email', strategy: 'ENCRYPT', keyId: 'customer' }];

requiring(
  ['kms', 'vault'],
  `keys of a service, beside the auto-instrumentations of line ${otel}`,
  function () {
    this.timeout(240_000);
    let kms: TestKms;
    let vault: TestVault;
    let arn: string;
    let mount: string;
    before(async () => {
      [kms, vault] = await Promise.all([startKms(), startVault()]);
      arn = await kms.createKey();
      mount = await vault.mount('transit');
      await vault.call('POST', `${mount}/keys/customer`, {});
    });

    it('are fetched from AWS KMS without a span, and captured calls of its client are the application’s only', async () => {
      const { endpoint, region } = kms;
      const kmsSettings = {
        enabled: true,
        type: 'aws',
        keys: { customer: arn },
        aws: { endpoint, region, dekCacheTtlMs: 1000 },
      };
      const client = { module: '@aws-sdk/client-kms', function: 'KMSClient.prototype.send' };
      const end = await run({
        'svc.config.json': configOf([{ ...client, eventType: 'SENT', payload: '#args.length' }], {
          pii: { fields, kms: kmsSettings },
        }),
        'main.cjs': main(
          `const provider = require('svc/aws-kms').createAwsKmsKeyProvider(${JSON.stringify({ endpoint, region, keys: { customer: arn } })});`,
          `const { KMSClient, ListKeysCommand } = require('@aws-sdk/client-kms');
         await new KMSClient(${JSON.stringify({ endpoint, region })}).send(new ListKeysCommand({}));`,
        ),
      });
      const seen = seenIn(end);
      assert.deepEqual([seen.email, seen.dataKeys], ['ada@example.com', 3], end.stderr);
      assertOnlyEvents(seen);
      assert.ok(seen.own.includes('KMS.ListKeys') && seen.own.includes('POST'), seen.own.join());
      const sent = (end.topics.events ?? []).filter(({ value }) => value.eventType === 'SENT');
      assert.equal(sent.length, 1, 'the application made one call');
    });

    it('are fetched from Vault without a span', async () => {
      const { address, token } = vault;
      const transit = { address, token, mode: 'transit', mountPath: mount, dekCacheTtlMs: 1000 };
      const kmsSettings = { enabled: true, type: 'vault', vault: transit };
      const options = { address, token, engine: 'transit', mount };
      const end = await run({
        'svc.config.json': configOf([], { pii: { fields, kms: kmsSettings } }),
        'main.cjs': main(
          `const provider = require('svc/vault').createVaultKeyProvider(${JSON.stringify(options)});`,
          `await new Promise((done) => require('node:http').get('${address}/v1/sys/health', (answer) => answer.resume().on('end', done)));
         await new Promise((done) => setTimeout(done, 50));`,
        ),
      });
      const seen = seenIn(end);
      assert.deepEqual([seen.email, seen.dataKeys], ['ada@example.com', 3], end.stderr);
      assertOnlyEvents(seen);
      assert.ok(seen.own.includes('GET'), seen.own.join());
    });
  },
);
