import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { resolve } from 'node:path';
import { createDecryptionKeys } from '../../src/consumer/decrypt-fields.ts';
import { createSealer } from '../../src/protect/keys/create-sealer.ts';
import { fakeKeyService } from '../protect/fake-key-service.ts';
import { temporaryFolder } from '../support/folders.ts';
import { findJdk } from '../support/java.ts';
import { requiring } from '../support/requires.ts';

const texts = [
  'jonathan.doe@example.com',
  '',
  'a',
  'Grüße, 東京 👋 \0 \u2028',
  'x'.repeat(100_000),
  ...Array.from({ length: 40 }, (_, length) => 'é'.repeat(length)),
];
const base64 = (text: string | Uint8Array): string => Buffer.from(text as string).toString('base64');
const field = { keyId: 'main', eventType: 'ORDER', path: 'email' };

/** Ciphertexts and hashes of the specified layouts, made and read by `javax.crypto`. */
requiring('java', 'interoperability with the JVM', function () {
  this.timeout(120_000);
  const source = resolve(import.meta.dirname, 'fixtures/Interop.java');
  let classes: string | undefined;

  before(() => {
    classes = temporaryFolder('interop');
    const done = spawnSync(findJdk().javac, ['-encoding', 'UTF-8', '-d', classes, source], {
      encoding: 'utf8',
    });
    assert.equal(done.status, 0, done.stderr);
  });

  /** One answer a command, from one JVM. */
  function java(
    command: string,
    first: string | Uint8Array,
    seconds: readonly string[],
    third = '',
  ): string[] {
    const input = seconds
      .map((one) => `${command} ${base64(first)} ${base64(one)} ${base64(third)}\n`)
      .join('');
    const done = spawnSync(findJdk().java, ['-cp', classes as string, 'Interop'], {
      input,
      encoding: 'utf8',
      maxBuffer: 1e8,
    });
    assert.equal(done.status, 0, done.stderr);
    const answers = done.stdout.trimEnd().split(/\r?\n/);
    assert.equal(answers.length, seconds.length);
    return answers;
  }
  const decoded = (answers: readonly string[]): string[] =>
    answers.map((one) => Buffer.from(one, 'base64').toString());

  it('static keys: each reads what the other wrote', async () => {
    const key = randomBytes(32);
    const keys = createDecryptionKeys({ keys: [{ id: 'main', key }] });
    const opened = java('encrypt', key, texts).map((text) => keys.open(text, field));
    assert.deepEqual(await Promise.all(opened), texts);

    const sealer = createSealer({ keys: [{ id: 'main', key }] });
    const sealed = texts.map((text) => sealer.encrypt(text, field));
    assert.deepEqual(decoded(java('decrypt', key, sealed)), texts);
  });

  it('envelope encryption: each reads what the other wrote', async () => {
    const master = randomBytes(32);
    const service = fakeKeyService(master);
    const keys = createDecryptionKeys({ provider: service, keyIds: ['main'] });
    const opened = java('encryptEnvelope', master, texts, 'main').map((text) => keys.open(text, field));
    assert.deepEqual(await Promise.all(opened), texts);
    await keys.close();

    const sealer = createSealer({ provider: service, keyIds: ['main'] });
    await sealer.ready();
    const sealed = texts.map((text) => sealer.encrypt(text, field));
    await sealer.close();
    assert.deepEqual(decoded(java('decryptEnvelope', master, sealed, 'main')), texts);
  });

  it('hashes: both make the same, with salts of any bytes and lengths', () => {
    for (const salt of ['svc', 'Sälz 👋', 'x'.repeat(64), 'y'.repeat(65), 'z'.repeat(1_000)]) {
      const sealer = createSealer({ salt });
      assert.deepEqual(
        texts.map((text) => sealer.hash(text)),
        java('hash', salt, texts),
      );
    }
  });
});
