import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { sharedMemoryStore } from '../../src/adapters/memory/memory-broker.ts';
import { createDecryptionKeys, decryptFields } from '../../src/consumer.ts';
import { registerKeyProvider } from '../../src/index.ts';
import { keyProviderError } from '../../src/protect/keys/key-provider.ts';
import { requiring } from '../support/requires.ts';
import { type OwnVault, startOwnVault } from '../support/vault.ts';
import { type StartedSvc, startSvc } from './started-svc.ts';

const key = randomBytes(32);

describe('svc.pii.kms.on-unavailable', function () {
  this.timeout(30_000);
  let svc: StartedSvc | undefined;
  let isAway = true;
  let unregister = (): void => {};
  const provider = {
    ...{ name: 'vault-of-test', supportsEnvelopeEncryption: false as const },
    async getKey() {
      if (isAway) throw keyProviderError('SVC_PROTECT_KEY_UNAVAILABLE', 'it is away');
      return Buffer.from(key);
    },
  };

  beforeEach(() => {
    sharedMemoryStore().clear();
    isAway = true;
    unregister = registerKeyProvider('vault-of-test', provider);
  });
  afterEach(async () => {
    await svc?.end();
    unregister();
  });

  function started(onUnavailable: string, broker: object = {}): StartedSvc {
    svc = startSvc(
      { client: 'memory', ...broker },
      {
        pii: {
          kms: { enabled: true, type: 'vault-of-test', onUnavailable },
          fields: [
            { path: 'email', strategy: 'ENCRYPT' },
            { path: 'items[*].iban', strategy: 'ENCRYPT' },
          ],
        },
      },
    );
    return svc;
  }
  const publish = (payload: object) =>
    (svc as StartedSvc).service.producer.publish(payload, { eventType: 'JOINED', key: 'k' }).then(
      ({ outcome }) => outcome as string,
      (error) => (error as { code: string }).code,
    );

  it('refuse: an event whose key is away is refused at once', async () => {
    started('refuse');
    assert.equal(await publish({ email: 'a@example.com' }), 'SVC_PROTECT_KEY_UNAVAILABLE');
  });

  it('hold: events wait for the key, later ones behind them, and are sent in order as they were', async () => {
    started('hold');
    const first = { n: 1, email: 'a@example.com', items: [{ iban: 'DE 1' }, { iban: 'DE 2' }] };
    const outcomes = [publish(first), publish({ n: 2 }), publish({ n: 3, email: 'b@example.com' })];
    // What becomes of the object later is none of the event.
    first.email = 'changed@example.com';
    await sleep(300);
    assert.equal(sharedMemoryStore().all().length, 0);
    isAway = false;
    assert.deepEqual(await Promise.all(outcomes), ['published', 'published', 'published']);
    const events = sharedMemoryStore()
      .all()
      .map(({ record }) => JSON.parse(String(record.value)));
    assert.deepEqual(
      events.map(({ payload }) => (payload as { n: number }).n),
      [1, 2, 3],
    );
    // Base64 has no space, and no point.
    assert.doesNotMatch(JSON.stringify(events), /example\.com|DE \d/);
    const keys = createDecryptionKeys({ keys: [{ id: 'default', key }] });
    const opened = await decryptFields(events[0] as never, keys, { only: ['email', 'items[*].iban'] });
    const { email, items } = (opened as { payload: typeof first }).payload;
    assert.deepEqual([email, items], ['a@example.com', [{ iban: 'DE 1' }, { iban: 'DE 2' }]]);
    assert.equal(await publish({ n: 4, email: 'c@example.com' }), 'published');
  });

  it('hold: within the delivery timeout, and no more than the buffer has room for', async () => {
    started('hold', { deliveryTimeoutMs: 1_000, buffer: { maxEvents: 2 } });
    const atMs = performance.now();
    const held = [publish({ email: 'a@example.com' }), publish({ email: 'b@example.com' })];
    const one = await Promise.race([
      ...held.map(async (end) => ['held', await end]),
      publish({ email: 'c@example.com' }),
    ]);
    assert.equal(one, 'SVC_PROTECT_KEY_UNAVAILABLE');
    // One without a marked field needs no key.
    const plain = await Promise.race([...held.map(async (end) => ['held', await end]), publish({ n: 1 })]);
    assert.equal(plain, 'published');
    assert.deepEqual(await Promise.all(held), ['SVC_PROTECT_KEY_UNAVAILABLE', 'SVC_PROTECT_KEY_UNAVAILABLE']);
    assert.ok(performance.now() - atMs > 700);
    assert.equal((svc as StartedSvc).service.pending(), 0);
    assert.doesNotMatch((svc as StartedSvc).lines.join('\n'), /example\.com/);
  });

  it('hold: the end of the process refuses what still waits, and counts it', async () => {
    started('hold');
    const held = publish({ email: 'a@example.com' });
    await (svc as StartedSvc).service.stop(1_000);
    assert.equal(await held, 'SVC_PROTECT_KEY_UNAVAILABLE');
    assert.equal((svc as StartedSvc).service.pending(), 0);
  });
});

requiring('own-vault', 'svc.pii.kms.on-unavailable: hold, with a Vault', function () {
  this.timeout(60_000);
  let vault: OwnVault;
  let svc: StartedSvc | undefined;
  before(async () => {
    vault = await startOwnVault();
  });
  after(async () => {
    await svc?.end();
    await vault?.stop();
  });

  for (const [trouble, begin, end] of [
    ['is sealed', 'seal', 'unseal'],
    ['hangs', 'pause', 'resume'],
  ] as const)
    it(`that ${trouble} when svc starts: no event is refused, and all are sent soon after it is back`, async () => {
      const mountPath = await vault.mount('transit');
      await vault.call('POST', `${mountPath}/keys/customer`, {});
      sharedMemoryStore().clear();
      await vault[begin]();
      const { address, token } = vault;
      svc = startSvc(
        { client: 'memory' },
        {
          pii: {
            kms: {
              ...{ enabled: true, type: 'vault', onUnavailable: 'hold' },
              vault: { address, token, mode: 'transit', mountPath, defaultKeyPath: 'customer' },
            },
            fields: [{ path: 'email', strategy: 'ENCRYPT' }],
          },
        },
      );
      const { producer } = svc.service;
      const outcomes = Array.from({ length: 50 }, (_, n) =>
        producer.publish({ n, email: `${n}@example.com` }, { eventType: 'JOINED', key: 'k' }),
      );
      await sleep(6_000);
      assert.equal(sharedMemoryStore().all().length, 0);
      await vault[end]();
      const atMs = performance.now();
      const ended = await Promise.all(outcomes);
      assert.ok(performance.now() - atMs < 12_000, `${performance.now() - atMs} ms`);
      assert.ok(ended.every(({ outcome }) => outcome === 'published'));
      const values = sharedMemoryStore()
        .all()
        .map(({ record }) => String(record.value));
      assert.deepEqual(
        values.map((value) => JSON.parse(value).payload.n),
        Array.from({ length: 50 }, (_, n) => n),
      );
      assert.doesNotMatch(values.join(), /example\.com/);
      await svc.end();
      svc = undefined;
    });
});
