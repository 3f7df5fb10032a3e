import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import {
  type AwsKmsOptions,
  createAwsKmsKeyProvider,
} from '../../../src/adapters/aws-kms/aws-kms-key-provider.ts';
import type { EnvelopeKeyProvider } from '../../../src/protect/keys/key-provider.ts';
import { codeOf, rejection } from '../../contract/key-provider.ts';
import { type HttpFront, startHttpFront } from '../../support/http-front.ts';
import { startKms, startOwnKms, type TestKms } from '../../support/kms.ts';
import { requiring } from '../../support/requires.ts';

const refused = 'SVC_PROTECT_KEY_REFUSED';
const unavailable = 'SVC_PROTECT_KEY_UNAVAILABLE';
const mismatch = 'SVC_PROTECT_DECRYPT_FAILED';

requiring('kms', 'aws-kms', function () {
  this.timeout(30_000);
  let kms: TestKms;
  let front: HttpFront;
  before(async () => {
    kms = await startKms();
    front = await startHttpFront(kms.endpoint);
  });
  after(() => front?.close());
  beforeEach(() => front.reset());

  const opened: EnvelopeKeyProvider[] = [];
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((provider) => provider.close?.()));
  });
  const open = (options: AwsKmsOptions = {}): EnvelopeKeyProvider => {
    const provider = createAwsKmsKeyProvider({ endpoint: front.url, region: kms.region, ...options });
    opened.push(provider);
    return provider;
  };
  const answer = (status: number, type: string, rest: object = {}) =>
    ({
      kind: 'answer',
      status,
      body: JSON.stringify({ __type: type, message: 'SECRET-TEXT', ...rest }),
    }) as const;

  describe('keys and aliases', () => {
    it('takes a name that is not configured as an alias', async () => {
      const name = `svc-${randomUUID()}`;
      await kms.createAlias(name, await kms.createKey());
      const { plaintext, encryptedKey } = await open().generateDataKey(name);
      assert.deepEqual(await open().decryptDataKey(name, encryptedKey), plaintext);
      assert.equal(await codeOf(open().generateDataKey('toString')), refused);
    });

    it('decrypts with every key of a list, and makes new data keys with the first', async () => {
      const [older, newer] = [await kms.createKey(), await kms.createKey()];
      const before = await open({ keys: { customer: older } }).generateDataKey('customer');
      const both = open({ keys: { customer: [newer, older] } });
      const after = await both.generateDataKey('customer');
      assert.deepEqual(await both.decryptDataKey('customer', before.encryptedKey), before.plaintext);
      assert.deepEqual(
        await open({ keys: { customer: newer } }).decryptDataKey('customer', after.encryptedKey),
        after.plaintext,
      );
      const { code, message } = await rejection(
        open({ keys: { customer: newer } }).decryptDataKey('customer', before.encryptedKey),
      );
      assert.equal(code, mismatch);
      assert.match(message, /IncorrectKeyException/);
    });

    it('cannot decrypt any more what an alias meant before, unless the list names that key', async () => {
      const [older, newer, alias] = [await kms.createKey(), await kms.createKey(), `svc-${randomUUID()}`];
      await kms.createAlias(alias, older);
      const made = await open().generateDataKey(alias);
      await kms.moveAlias(alias, newer);
      assert.equal(await codeOf(open().decryptDataKey(alias, made.encryptedKey)), mismatch);
      const keys = { [alias]: [`alias/${alias}`, older] };
      assert.deepEqual(await open({ keys }).decryptDataKey(alias, made.encryptedKey), made.plaintext);
    });

    it('is bound to the encryption context', async () => {
      const keys = { customer: await kms.createKey() };
      const encryptionContext = { purpose: 'svc', tenant: 'a' };
      const made = await open({ keys, encryptionContext }).generateDataKey('customer');
      const decrypt = (context?: Record<string, string>) =>
        open({ keys, ...(context && { encryptionContext: context }) }).decryptDataKey(
          'customer',
          made.encryptedKey,
        );
      assert.deepEqual(await decrypt({ tenant: 'a', purpose: 'svc' }), made.plaintext);
      for (const other of [undefined, {}, { purpose: 'svc' }, { ...encryptionContext, tenant: 'b' }])
        assert.equal(await codeOf(decrypt(other)), mismatch, JSON.stringify(other));
    });
  });

  describe('refusals, which are asked once', () => {
    const cases: [state: string, change: (kms: TestKms, key: string) => Promise<void>, says: RegExp][] = [
      ['disabled', (server, key) => server.disable(key), /the key is disabled.*\(DisabledException\)/],
      ['pending deletion', (server, key) => server.scheduleDeletion(key), /\(KMSInvalidStateException\)/],
    ];
    for (const [state, change, says] of cases) {
      it(`a key that is ${state}`, async () => {
        const key = await kms.createKey();
        const provider = open({ keys: { customer: key } });
        const { encryptedKey } = await provider.generateDataKey('customer');
        await change(kms, key);
        for (const call of [
          () => provider.generateDataKey('customer'),
          () => provider.decryptDataKey('customer', encryptedKey),
        ]) {
          front.reset();
          const { code, message } = await rejection(call());
          assert.deepEqual([code, front.count], [refused, 1]);
          assert.match(message, says);
        }
      });
    }

    it('a disabled key is used again once it is enabled', async () => {
      const key = await kms.createKey();
      const provider = open({ keys: { customer: key } });
      await kms.disable(key);
      assert.equal(await codeOf(provider.generateDataKey('customer')), refused);
      await kms.enable(key);
      assert.equal((await provider.generateDataKey('customer')).plaintext.length, 32);
    });

    for (const name of [
      'AccessDeniedException',
      'ExpiredTokenException',
      'UnrecognizedClientException',
      'ValidationException',
    ]) {
      it(name, async () => {
        front.fail(answer(400, name));
        const { code, message } = await rejection(open().generateDataKey('customer'), ['SECRET-TEXT']);
        assert.deepEqual([code, front.count], [refused, 1]);
        assert.match(message, new RegExp(`alias/customer: .+ \\(${name}\\)$`));
      });
    }

    it('no credentials, and no region', async () => {
      const saved = { ...process.env };
      for (const name of Object.keys(process.env)) if (name.startsWith('AWS_')) delete process.env[name];
      const nowhere = '/nonexistent/svc-test';
      Object.assign(process.env, {
        ...{
          AWS_EC2_METADATA_DISABLED: 'true',
          AWS_CONFIG_FILE: nowhere,
          AWS_SHARED_CREDENTIALS_FILE: nowhere,
        },
      });
      try {
        const withoutCredentials = await rejection(open().generateDataKey('customer'));
        assert.equal(withoutCredentials.code, refused);
        assert.match(withoutCredentials.message, /no AWS credentials.*\(CredentialsProviderError\)/);
        Object.assign(process.env, { AWS_ACCESS_KEY_ID: 'a', AWS_SECRET_ACCESS_KEY: 'b' });
        const withoutRegion = await rejection(createAwsKmsKeyProvider().generateDataKey('customer'));
        assert.equal(withoutRegion.code, refused);
        assert.match(withoutRegion.message, /no region is configured/);
      } finally {
        for (const name of Object.keys(process.env)) if (!(name in saved)) delete process.env[name];
        Object.assign(process.env, saved);
      }
    });
  });

  describe('a service that is not well', () => {
    const keys: Record<string, string> = {};
    before(async () => {
      keys.customer = await kms.createKey();
    });
    const throttled = answer(400, 'ThrottlingException');

    it('is asked again once, and that is enough where it recovers', async () => {
      for (const fault of [throttled, answer(500, 'KMSInternalException'), { kind: 'reset' } as const]) {
        front.fail(fault, 1);
        assert.equal((await open({ keys }).generateDataKey('customer')).plaintext.length, 32);
        assert.equal(front.count, 2, JSON.stringify(fault));
      }
    });

    it('is unavailable while it throttles, fails or resets, after two tries', async () => {
      const faults = [
        throttled,
        answer(500, 'KMSInternalException'),
        answer(503, 'Other'),
        { kind: 'reset' } as const,
      ];
      for (const fault of faults) {
        front.fail(fault);
        const { code } = await rejection(open({ keys }).generateDataKey('customer'), ['SECRET-TEXT']);
        assert.deepEqual([code, front.count], [unavailable, 2], JSON.stringify(fault));
      }
    });

    it('is unavailable when it does not answer: each try has its time', async () => {
      front.fail({ kind: 'hang' });
      const started = performance.now();
      const { code, message } = await rejection(
        open({ keys, requestTimeoutMs: 300 }).generateDataKey('customer'),
      );
      assert.deepEqual([code, front.count], [unavailable, 2]);
      assert.match(message, /TimeoutError|ETIMEDOUT/);
      const took = performance.now() - started;
      assert.ok(took >= 580 && took < 3_000, `${took} ms`);
    });

    it('is unavailable when an answer never ends: the call has its time', async () => {
      front.fail({ kind: 'stall' });
      const { code, message } = await rejection(open({ keys, deadlineMs: 400 }).generateDataKey('customer'));
      assert.equal(code, unavailable);
      assert.match(message, /did not answer within 400 ms/);
    });

    it('gives no key that is not 32 bytes', async () => {
      for (const [bytes, found] of [
        [16, 'found 16'],
        [33, 'found 33'],
      ] as const) {
        const Plaintext = Buffer.alloc(bytes, 7).toString('base64');
        front.fail({
          kind: 'answer',
          status: 200,
          body: JSON.stringify({ Plaintext, KeyId: 'x', CiphertextBlob: 'AAAA' }),
        });
        const { code, message } = await rejection(open({ keys }).generateDataKey('customer'), [Plaintext]);
        assert.equal(code, mismatch);
        assert.match(message, new RegExp(`exactly 32 bytes; ${found}$`));
      }
    });

    it('takes encrypted keys as long as KMS does', async () => {
      const call = (bytes: number) => open({ keys }).decryptDataKey('customer', Buffer.alloc(bytes, 1));
      assert.equal(await codeOf(call(6_144)), mismatch);
      assert.equal(front.count, 1);
      assert.equal(await codeOf(call(6_145)), mismatch);
      assert.equal(front.count, 1, 'it was not asked');
    });

    it('fails for good after it was closed', async () => {
      const provider = open({ keys });
      await provider.generateDataKey('customer');
      await provider.close?.();
      assert.equal(await codeOf(provider.generateDataKey('customer')), unavailable);
      assert.equal(front.count, 1);
    });
  });
});

requiring('own-kms', 'aws-kms, its service ended', () => {
  it('is unavailable from then on', async function () {
    this.timeout(30_000);
    const kms = await startOwnKms();
    try {
      const keys = { customer: await kms.createKey() };
      const provider = createAwsKmsKeyProvider({ endpoint: kms.endpoint, region: kms.region, keys });
      const { encryptedKey } = await provider.generateDataKey('customer');
      await kms.stop();
      const { code, message } = await rejection(provider.decryptDataKey('customer', encryptedKey));
      assert.equal(code, unavailable);
      assert.match(message, /ECONNREFUSED/);
      await provider.close?.();
    } finally {
      await kms.stop();
    }
  });
});
