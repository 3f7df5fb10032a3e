import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { S3Client } from '@aws-sdk/client-s3';
import { bucketsFolder, type S3Server, startS3Server } from '../../scripts/services/s3.ts';
import { createMemoryBroker, sharedMemoryStore } from '../../src/adapters/memory/memory-broker.ts';
import { registerBroker, registerKeyProvider, registerS3Client, SvcError } from '../../src/index.ts';
import type { Broker } from '../../src/publish/broker.ts';
import { brokerContract } from '../../src/testing.ts';
import { requiring } from '../support/requires.ts';
import { type StartedSvc, startSvc } from './started-svc.ts';

describe('a broker of the application’s own', () => {
  const unregister: (() => void)[] = [];
  let svc: StartedSvc | undefined;
  afterEach(async () => {
    await svc?.end();
    svc = undefined;
    for (const end of unregister.splice(0)) end();
  });

  const register = (name: string, broker: Partial<Broker>): void =>
    void unregister.push(registerBroker(name, () => broker as Broker));
  const publish = () => (svc as StartedSvc).service.producer.publish({ n: 1 }, { eventType: 'ORDERED' });

  function stored(): unknown[] {
    return sharedMemoryStore()
      .all()
      .map(({ topic, record }) => [topic, JSON.parse(String(record.value)).payload]);
  }

  describe('passes the contract', () => {
    const store = sharedMemoryStore();
    const read = async (topic: string) =>
      store.all().flatMap((each) => (each.topic === topic ? [{ ...each.record, partition: 0 }] : []));
    const cases = brokerContract(() => ({
      ...{ open: createMemoryBroker, createTopic: async () => {}, read },
      count: async (topic) => (await read(topic)).length,
      ...{ hasPartitions: false, isCluster: false, longestTopicName: 249 },
    }));
    for (const { title, run } of cases) it(title, run);
    it('which fails for one that is none', async () => {
      const broken = brokerContract(() => ({
        open: () => ({ ...createMemoryBroker(), send: async () => ({ ok: true }) }),
        ...{ createTopic: async () => {}, read, count: async (topic) => (await read(topic)).length },
        ...{ hasPartitions: false, isCluster: false, longestTopicName: 249 },
      }));
      const first = broken.find(({ title }) => title.startsWith('connects by itself'));
      await assert.rejects(async () => first?.run(), { name: 'AssertionError' });
    });
  });

  it('gets the events of the name in the configuration, also where it is registered after the start', async () => {
    sharedMemoryStore().clear();
    svc = startSvc({ client: 'our-bus', clientId: 'shop', bootstrapServers: ['bus:1'] });
    svc.service.resume();
    const published = publish();
    await new Promise((resolve) => setTimeout(resolve, 50));
    let settings: object = {};
    unregister.push(
      registerBroker('our-bus', (given) => {
        settings = given;
        return createMemoryBroker();
      }),
    );
    assert.equal((await published).outcome, 'published');
    assert.deepEqual(stored(), [['orders', { n: 1 }]]);
    assert.deepEqual(svc.lines, []);
    const { clientId, bootstrapServers } = settings as Record<string, unknown>;
    assert.deepEqual([clientId, bootstrapServers], ['shop', ['bus:1']]);
  });

  const memory = createMemoryBroker();
  for (const [what, broker, says] of [
    [
      'throws',
      {
        send() {
          throw new TypeError('secret');
        },
      },
      /"broken" threw \(TypeError\)/,
    ],
    ['rejects', { send: () => Promise.reject(new Error('secret')) }, /"broken" threw \(Error\)/],
    ['gives no answer', { send: async () => undefined }, /gave an invalid answer/],
    [
      'gives one of no kind',
      { send: async () => ({ ok: false, failure: { kind: 'odd' } }) },
      /gave an invalid answer/,
    ],
    ['hangs', { send: () => new Promise(() => {}) }, /has not answered within 200 ms/],
    [
      'is none',
      { send: undefined },
      /could not be loaded: "broken" is not a broker: it has no function send/,
    ],
  ] as const)
    it(`that ${what}: the event goes to the backup, with the reason`, async () => {
      register('broken', { ...memory, ...broker } as Partial<Broker>);
      svc = startSvc({ client: 'broken', requestTimeoutMs: 200 });
      assert.equal((await publish()).outcome, 'backup');
      assert.deepEqual(
        svc.backup().map(({ payload }) => payload),
        [{ n: 1 }],
      );
      assert.match(svc.lines.join('\n'), says);
      assert.doesNotMatch(svc.lines.join('\n'), /secret/);
    });

  it('that nobody registers: the event goes to the backup, and a line says what to call', async () => {
    svc = startSvc({ client: 'forgotten' });
    assert.equal((await publish()).outcome, 'backup');
    const { lines } = svc;
    const isSaid = (): boolean => lines.some((line) => line.includes('call registerBroker("forgotten", …)'));
    for (const endMs = performance.now() + 12_000; !isSaid() && performance.now() < endMs; )
      await new Promise((resolve) => setTimeout(resolve, 50));
    assert.match(lines.join('\n'), /call registerBroker\("forgotten", …\)/);
  }).timeout(20_000);

  it('refuses what is no broker, and names that are taken or none', () => {
    const broker = (): Broker => memory;
    unregister.push(registerBroker('mine', broker));
    unregister.push(registerBroker('m'.repeat(32), broker));
    for (const [name, factory] of [
      ['other', {}],
      ['mine', broker],
      ['kafkajs', broker],
      ['', broker],
      ['Mine', broker],
      ['m'.repeat(33), broker],
      [undefined, broker],
    ])
      assert.throws(
        () => registerBroker(name as string, factory as () => Broker),
        (error) => error instanceof SvcError && error.code === 'SVC_PUBLISH_BROKER',
      );
  });
});

describe('a key provider of the application’s own', () => {
  const key = randomBytes(32);
  let svc: StartedSvc | undefined;
  let unregister = (): void => {};
  afterEach(async () => {
    await svc?.end();
    svc = undefined;
    unregister();
  });

  const started = (): StartedSvc =>
    startSvc(
      { client: 'memory' },
      {
        pii: { kms: { enabled: true, type: 'our-vault' }, fields: [{ path: 'email', strategy: 'ENCRYPT' }] },
      },
    );
  const publish = () =>
    (svc as StartedSvc).service.producer.publish({ email: 'a@example.com' }, { eventType: 'JOINED' });

  for (const [what, provider] of [
    ['that holds keys', { supportsEnvelopeEncryption: false, getKey: async () => Buffer.from(key) }],
    [
      'that makes data keys',
      {
        supportsEnvelopeEncryption: true,
        generateDataKey: async () => ({ plaintext: Buffer.from(key), encryptedKey: Buffer.from('wrapped') }),
        decryptDataKey: async () => Buffer.from(key),
      },
    ],
  ] as const)
    it(`${what} encrypts, also where it is registered after the start`, async () => {
      svc = started();
      unregister = registerKeyProvider('our-vault', { name: 'ours', ...provider });
      const endMs = performance.now() + 5_000;
      let outcome: string;
      do {
        outcome = await publish().then(
          (published) => published.outcome,
          (error: Error) => error.message,
        );
      } while (outcome !== 'published' && performance.now() < endMs);
      assert.equal(outcome, 'published');
      assert.doesNotMatch(svc.lines.join('\n'), /cannot be had/);
    });

  it('refuses what is no provider, and names that are taken', () => {
    const provider = { name: 'ours', supportsEnvelopeEncryption: false, getKey: async () => key } as const;
    for (const [name, given] of [
      ['aws', provider],
      ['ours', undefined],
      ['ours', { ...provider, getKey: undefined }],
      ['ours', { ...provider, supportsEnvelopeEncryption: true }],
    ])
      assert.throws(
        () => registerKeyProvider(name as string, given as never),
        (error) => error instanceof SvcError && error.code === 'SVC_PROTECT_KEY_PROVIDER',
      );
  });
});

requiring('own-s3', 'an S3 client of the application’s own', function () {
  this.timeout(60_000);
  let server: S3Server;
  before(async () => {
    server = await startS3Server();
    assert.ok(server.local);
    await mkdir(join(bucketsFolder(server.local), 'orders-backup'));
  });
  after(() => server?.local?.stop());

  it('stores the backups with its own credentials, and is not ended', async () => {
    assert.ok(server.local);
    const { accessKey: accessKeyId, secretKey: secretAccessKey, endpoint } = server;
    const client = new S3Client({
      ...{ endpoint, forcePathStyle: true, region: 'us-east-1' },
      credentials: { accessKeyId, secretAccessKey },
    });
    let isEnded = false;
    const { destroy } = client;
    client.destroy = () => {
      isEnded = true;
    };
    const unregister = registerS3Client(client);
    const svc = startSvc({
      bootstrapServers: ['127.0.0.1:1'],
      backup: { s3Enabled: true, s3Bucket: 'orders-backup' },
    });
    try {
      const { outcome } = await svc.service.producer.publish({ n: 1 }, { eventType: 'KEPT' });
      assert.equal(outcome, 'backup');
      assert.equal((await readdir(svc.folder)).includes('backup'), false);
      const files = await readdir(join(bucketsFolder(server.local), 'orders-backup'), { recursive: true });
      assert.equal(files.filter((name) => name.endsWith('.json')).length, 1);
    } finally {
      await svc.end();
      unregister();
      assert.equal(isEnded, false);
      destroy.call(client);
    }
  });

  it('refuses what is none', () => {
    assert.throws(() => registerS3Client({} as never), { code: 'SVC_GROUND_BUCKET_CLIENT' });
  });
});
