import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { createAwsKmsKeyProvider } from '../../src/adapters/aws-kms/aws-kms-key-provider.ts';
import { createVaultKeyProvider } from '../../src/adapters/vault/vault-key-provider.ts';
import { createSealer } from '../../src/protect/keys/create-sealer.ts';
import type { KeyProvider } from '../../src/protect/keys/key-provider.ts';
import { temporaryFolder } from '../support/folders.ts';
import { startOwnKms, type TestKms } from '../support/kms.ts';
import { requiring } from '../support/requires.ts';
import { type OwnVault, startOwnVault } from '../support/vault.ts';

const main = resolve(import.meta.dirname, '../../src/cli/main.ts');
const staticKey = randomBytes(32).toString('base64');

/** Envelopes as a publisher makes them with the keys of a service: one with the default key, one with another. */
async function published(provider: KeyProvider, format: 'v0' | 'v1'): Promise<string> {
  const sealer = createSealer({ provider, defaultKeyId: 'default', keyIds: [undefined, 'cards'], format });
  await sealer.ready();
  const sealed = (eventId: string, keyId: string | undefined) => {
    const email = sealer.encrypt(`${eventId}@example.com`, { keyId, eventType: 'ORDER', path: 'email' });
    return JSON.stringify({ eventId, eventType: 'ORDER', payload: { email } });
  };
  const lines = [sealed('1', undefined), sealed('2', 'cards')];
  await sealer.close();
  return lines.join('\n');
}

requiring(['own-kms', 'own-vault'], 'svc decrypt with keys of a service', function () {
  this.timeout(60_000);
  let folder: string;
  let kms: TestKms;
  let vault: OwnVault;
  let arns: readonly [string, string];
  let mount: string;
  before(async () => {
    folder = temporaryFolder('decrypt-kms');
    process.env.AWS_ACCESS_KEY_ID ??= 'test';
    process.env.AWS_SECRET_ACCESS_KEY ??= 'moto-takes-any-secret';
    [kms, vault] = await Promise.all([startOwnKms(), startOwnVault()]);
    arns = [await kms.createKey(), await kms.createKey()];
    mount = await vault.mount('transit');
    for (const name of ['customer', 'cards']) await vault.call('POST', `${mount}/keys/${name}`, {});
  });
  after(async () => {
    await Promise.all([kms?.stop(), vault?.stop()]);
  });

  /** With `svc.config.json` in the working directory, as beside an application; without a topic it could not start. */
  function run(kmsSettings: object, input: string, args: readonly string[] = [], svc: object = {}) {
    writeFileSync(
      join(folder, 'svc.config.json'),
      JSON.stringify({ svc: { pii: { kms: { enabled: true, ...kmsSettings } }, ...svc } }),
    );
    const { PII_ENCRYPTION_KEY: _, VAULT_ADDR: __, VAULT_TOKEN: ___, ...env } = process.env;
    const done = spawnSync(process.execPath, [main, 'decrypt', ...args], {
      input,
      encoding: 'utf8',
      env,
      cwd: folder,
    });
    const emails = done.stdout
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line).payload.email as string);
    const err = done.stderr.replace(/^svc: configuration .*\n/, '');
    return { code: done.status, emails, err };
  }

  const ofKms = () => ({
    type: 'aws',
    keys: { cards: arns[1] },
    aws: { region: kms.region, endpoint: kms.endpoint, defaultKeyArn: arns[0] },
  });
  const ofVault = () => ({
    type: 'vault',
    keys: { cards: 'cards' },
    vault: {
      address: vault.address,
      token: vault.token,
      mode: 'transit',
      mountPath: mount,
      defaultKeyPath: 'customer',
    },
  });
  const kmsProvider = () =>
    createAwsKmsKeyProvider({
      region: kms.region,
      endpoint: kms.endpoint,
      keys: { default: arns[0], cards: arns[1] },
    });
  const vaultProvider = () =>
    createVaultKeyProvider({
      address: vault.address,
      token: vault.token,
      engine: 'transit',
      mount,
      keys: { default: 'customer' },
    });
  const both = ['1@example.com', '2@example.com'];

  for (const format of ['v0', 'v1'] as const) {
    it(`opens ${format} with the key service of the configuration`, async () => {
      for (const [settings, provider] of [
        [ofKms(), kmsProvider()],
        [ofVault(), vaultProvider()],
      ] as const) {
        const { code, emails, err } = run(settings, await published(provider, format), ['--field', 'email']);
        assert.deepEqual(
          { code, emails, err },
          { code: 0, emails: both, err: 'svc: 2 records, 2 fields decrypted, 0 failures\n' },
        );
      }
    });
  }

  it('asks for the keys of rules too, and for those of --key-id', async () => {
    const input = await published(vaultProvider(), 'v1');
    const { keys: _, ...withoutNames } = ofVault();
    const alone = run(withoutNames, input);
    assert.deepEqual([alone.code, alone.emails[0]], [1, '1@example.com']);
    assert.match(alone.err, /^svc: line 2, event 2, email: .*not among these: default \(SVC_PROTECT_KEY_UNK/);
    assert.deepEqual(run(withoutNames, input, ['--key-id', 'cards']).emails, both);
    const targets = [{ module: './a.ts', function: 'f', pii: ['email=EMAIL:ENCRYPT'] }];
    const rules = {
      targets: [{ ...targets[0], pii: [{ path: 'email', strategy: 'ENCRYPT', keyId: 'cards' }] }],
    };
    assert.deepEqual(run(withoutNames, input, [], rules).emails, both);
  });

  it('reads what a configured key encrypted beside it, with --config and --keys-file', async () => {
    const keys = [{ id: 'old', key: staticKey }];
    writeFileSync(join(folder, 'keys.json'), JSON.stringify({ keys }));
    const sealer = createSealer({ keys });
    const email = sealer.encrypt('3@example.com', { keyId: undefined, eventType: 'ORDER', path: 'email' });
    const old = JSON.stringify({ eventId: '3', eventType: 'ORDER', payload: { email } });
    const input = `${await published(kmsProvider(), 'v0')}\n${old}`;
    const args = ['--config', 'svc.config.json', '--keys-file', 'keys.json', '--field', 'email'];
    assert.deepEqual(run(ofKms(), input, args).emails, [...both, '3@example.com']);
    const withoutConfig = run(ofKms(), input, ['--keys-file', 'keys.json', '--field', 'email']);
    assert.deepEqual([withoutConfig.code, withoutConfig.emails[2]], [1, '3@example.com']);
  });

  it('says what is the matter with the service, line by line, and shows the fields as they are', async () => {
    const input = await published(vaultProvider(), 'v0');
    await vault.seal();
    try {
      const { code, emails, err } = run(ofVault(), input, ['--field', 'email']);
      assert.equal(code, 1);
      assert.match(
        err,
        /^svc: line 1, event 1, email: Vault at .*: it is sealed: unseal it \(SVC_PROTECT_KEY_UNAVA/,
      );
      assert.match(err, /2 records, 0 fields decrypted, 2 failures\n$/);
      assert.ok(emails.every((email) => email.startsWith('ENC(')));
    } finally {
      await vault.unseal();
    }
    const ofDisabled = await published(kmsProvider(), 'v0');
    await kms.disable(arns[0]);
    const { err } = run(ofKms(), ofDisabled, ['--field', 'email']);
    await kms.enable(arns[0]);
    assert.match(
      err,
      /line 1, event 1, email: AWS KMS refuses key arn:.*: the key is disabled: enable it in KMS/,
    );
    const wrongToken = { ...ofVault(), vault: { ...ofVault().vault, token: 'wrong-token' } };
    assert.match(run(wrongToken, input, ['--field', 'email']).err, /the token is wrong, has expired/);
    assert.ok(!run(wrongToken, input, ['--field', 'email']).err.includes('wrong-token'));
  });

  it('says what is wrong with the configuration, and only what it needs of it', () => {
    const err = (settings: object, args: readonly string[] = []) => run(settings, '', args).err;
    assert.match(err({}), /svc\.pii\.kms\.type: is required/);
    assert.match(
      err({ type: 'aws' }),
      /no key of the key service is named: set svc\.pii\.kms\.keys, or give --key-id/,
    );
    assert.match(err({ enabled: false }, ['--key-id', 'a']), /--key-id needs a key service/);
    assert.match(err({ enabled: false }), /PII encryption key is not configured/);
    assert.match(err(ofKms(), ['--key-id', 'a/b']), /Invalid key id/);
    assert.match(
      err(ofKms(), ['--config', 'nowhere.yaml']),
      /nowhere\.yaml.*see npx --no svc decrypt --help/s,
    );
  });
});
