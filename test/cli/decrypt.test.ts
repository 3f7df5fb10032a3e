import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileBroker } from '../../src/adapters/file/file-broker.ts';
import { createSealer } from '../../src/protect/keys/create-sealer.ts';
import { temporaryFolder } from '../support/folders.ts';

const main = resolve(import.meta.dirname, '../../src/cli/main.ts');
const key = randomBytes(32).toString('base64');
const sealer = createSealer({ keys: [{ id: 'k1', key }], format: 'v1' });
const place = { keyId: undefined, eventType: 'ORDER', path: 'email' };
const envelope = (eventId: string, email = sealer.encrypt(`${eventId}@example.com`, place)) => ({
  eventId,
  eventType: 'ORDER',
  payload: { email },
});

describe('svc decrypt', function () {
  this.timeout(30_000);
  let folder: string;
  let keysFile: string;
  before(() => {
    folder = temporaryFolder('decrypt');
    keysFile = write('keys.json', JSON.stringify({ keys: [{ id: 'k1', key }] }));
  });

  function write(name: string, text: string | Buffer): string {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  }

  function run(args: readonly string[], input = '', env: NodeJS.ProcessEnv = {}) {
    const { PII_ENCRYPTION_KEY: _, ...rest } = process.env;
    const done = spawnSync(process.execPath, [main, 'decrypt', ...args], {
      input,
      encoding: 'utf8',
      env: { ...rest, ...env },
    });
    return { code: done.status, out: done.stdout, err: done.stderr };
  }

  it('shows the records of the file broker with their fields readable', async () => {
    const value = (eventId: string) => Buffer.from(JSON.stringify(envelope(eventId)));
    const record = (eventId: string) => ({
      timestamp: 5,
      key: eventId,
      headers: { a: 'b' },
      value: value(eventId),
    });
    const broker = fileBroker.open({ directory: folder });
    assert.deepEqual(await broker.send('topic', 0, [record('1'), record('2')]), { ok: true });
    const file = join(folder, 'topic.ndjson');
    const { code, out, err } = run([file, '--keys-file', keysFile]);
    assert.deepEqual(
      out
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as unknown),
      ['1', '2'].map((eventId) => ({
        timestamp: 5,
        key: eventId,
        headers: { a: 'b' },
        value: envelope(eventId, `${eventId}@example.com`),
      })),
    );
    assert.deepEqual([err, code], ['svc: 2 records, 2 fields decrypted, 0 failures\n', 0]);
  });

  it('reads plain envelopes from standard input, a line each, over several lines or in an array', () => {
    const plain = (eventId: string) => envelope(eventId, `${eventId}@example.com`);
    const inputs = [
      `${JSON.stringify(envelope('1'))}\r\n\n${JSON.stringify(envelope('2'))}`,
      JSON.stringify([envelope('1'), envelope('2')]),
      JSON.stringify([envelope('1'), envelope('2')], null, 2),
    ];
    for (const input of inputs) {
      const { code, out } = run(['--keys-file', keysFile], input);
      assert.deepEqual([code, out], [0, `${JSON.stringify(plain('1'))}\n${JSON.stringify(plain('2'))}\n`]);
    }
    const pretty = run(['--keys-file', keysFile], JSON.stringify(envelope('1'), null, 2));
    assert.deepEqual([pretty.code, pretty.out], [0, `${JSON.stringify(plain('1'))}\n`]);
  });

  it('reads CloudEvents: of binary mode with the headers of their records, of structured mode alone as well', () => {
    const { email } = envelope('1').payload;
    const attributes = { specversion: '1.0', id: '7', source: '/o', type: 'ORDER' };
    const headers = Object.fromEntries(
      Object.entries(attributes).map(([name, text]) => [`ce_${name}`, text]),
    );
    const isStructured = { 'content-type': 'application/cloudevents+json; charset=UTF-8' };
    const opened = { email: '1@example.com' };
    const inOut: [given: object, shown: object][] = [
      [
        { key: 'k', headers, value: { email } },
        { key: 'k', headers, value: opened },
      ],
      [
        { key: 'k', headers: isStructured, value: { ...attributes, data: { email } } },
        { key: 'k', headers: isStructured, value: { ...attributes, data: opened } },
      ],
      [
        { ...attributes, data: { email } },
        { ...attributes, data: opened },
      ],
    ];
    const { code, out, err } = run(
      ['--keys-file', keysFile],
      inOut.map(([given]) => JSON.stringify(given)).join('\n'),
    );
    assert.deepEqual([code, err], [0, 'svc: 3 records, 3 fields decrypted, 0 failures\n']);
    assert.deepEqual(
      out
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line)),
      inOut.map(([, shown]) => shown),
    );
    const other = run(
      ['--keys-file', keysFile],
      JSON.stringify({ ...attributes, type: 'OTHER', data: { email } }),
    );
    assert.match(other.err, /^svc: line 1, (event 7, )?email: .*\(SVC_PROTECT_DECRYPT_FAILED\)$/m);
  });

  it('takes the key of the environment as the configuration does: Base64, or 32 characters', () => {
    for (const text of [key, 'k'.repeat(32)]) {
      const bytes = text === key ? Buffer.from(key, 'base64') : Buffer.from(text);
      const email = createSealer({ keys: [{ id: 'default', key: bytes }] }).encrypt('5@example.com', place);
      const { out } = run(['--field', 'email'], JSON.stringify(envelope('5', email)), {
        PII_ENCRYPTION_KEY: text,
      });
      assert.equal(JSON.parse(out).payload.email, '5@example.com');
    }
    const { code, err } = run([], '', { PII_ENCRYPTION_KEY: Buffer.alloc(31).toString('base64') });
    assert.deepEqual([code, err.includes('found 31')], [1, true], err);
  });

  it('takes the key of the environment, besides those of the file', () => {
    const own = randomBytes(32).toString('base64');
    const byEnv = createSealer({ keys: [{ id: 'default', key: own }] }).encrypt('x', place);
    const input = [envelope('1', byEnv), envelope('2')].map((one) => JSON.stringify(one)).join('\n');
    const args = ['--keys-file', keysFile, '--field', 'email'];
    const { code, out } = run(args, input, { PII_ENCRYPTION_KEY: own });
    assert.equal(code, 0);
    assert.deepEqual(out.match(/"email":"[^"]+"/g), ['"email":"x"', '"email":"2@example.com"']);
  });

  it('goes on after a bad line, names place and code on standard error and exits with 1', () => {
    const uuid = '019c5e1f-3c80-7000-8000-0123456789ab';
    const moved = { ...envelope(uuid), eventType: 'OTHER' };
    const noId = { ...envelope('CANARY 7'), eventType: 'OTHER' };
    const lines = [
      'CANARY',
      JSON.stringify({ CANARY: 1 }),
      JSON.stringify(moved),
      JSON.stringify(envelope('4')),
      JSON.stringify(noId),
    ];
    const { code, out, err } = run(['--keys-file', keysFile], lines.join('\n'));
    assert.equal(code, 1);
    assert.match(err, /^svc: line 1: this is not valid JSON \(SVC_CONSUMER_NOT_AN_ENVELOPE\)$/m);
    assert.match(err, /^svc: line 2: this is neither .*\(SVC_CONSUMER_NOT_AN_ENVELOPE\)$/m);
    const failed = 'email: the ciphertext does not pass .*\\(SVC_PROTECT_DECRYPT_FAILED\\)';
    assert.match(err, new RegExp(`^svc: line 3, event ${uuid}, ${failed}$`, 'm'));
    assert.match(err, new RegExp(`^svc: line 5, ${failed}$`, 'm'));
    assert.match(err, /^svc: 5 records, 1 fields decrypted, 4 failures$/m);
    assert.ok(!err.includes('CANARY') && !err.includes('ENC('));
    const read = [moved, envelope('4', '4@example.com'), noId].map((one) => `${JSON.stringify(one)}\n`);
    assert.equal(out, read.join(''));
  });

  it('writes one document with --json', () => {
    const input = [JSON.stringify(envelope('1')), JSON.stringify(envelope('2', 'ENC(v1:k1:!)'))].join('\n');
    const { code, out, err } = run(['--json', '--keys-file', keysFile], input);
    assert.deepEqual([code, err], [1, '']);
    assert.deepEqual(JSON.parse(out), {
      ok: false,
      records: 2,
      decrypted: 1,
      failures: [
        {
          line: 2,
          eventId: '2',
          path: 'email',
          code: 'SVC_PROTECT_CIPHERTEXT',
          message: 'the ciphertext is damaged: it is not valid Base64',
        },
      ],
      envelopes: [envelope('1', '1@example.com'), envelope('2', 'ENC(v1:k1:!)')],
    });
  });

  it('exits with 1 and one line where keys or input are missing or bad', () => {
    const cases: [args: string[], expected: RegExp][] = [
      [[], /^svc: PII encryption key is not configured.*\(SVC_PROTECT_NO_KEY\)\n$/],
      [['--keys-file', join(folder, 'none.json')], /cannot be read \(ENOENT\) \(SVC_CONSUMER_KEYS_FILE\)\n$/],
      [['--keys-file', write('a.json', '{"CANARY"')], /is not valid JSON \(SVC_CONSUMER_KEYS_FILE\)\n$/],
      [
        ['--keys-file', write('b.json', '{"keys":[{"id":"CANARY"}]}')],
        /it must be .*\(SVC_CONSUMER_KEYS_FILE\)\n$/,
      ],
      [
        ['--keys-file', write('c.json', '{"keys":[{"id":"a","key":"CANARY"}]}')],
        /found 6, read as characters \(SVC_PROTECT_KEY_LENGTH\)\n$/,
      ],
      [
        ['--keys-file', keysFile, join(folder, 'none.ndjson')],
        /^svc: ".*none.ndjson" cannot be read \(ENOENT\)\n$/,
      ],
    ];
    for (const [args, expected] of cases) {
      const { code, out, err } = run(args);
      assert.equal(code, 1);
      assert.equal(out, '');
      assert.match(err, expected);
      assert.ok(!err.includes('CANARY'));
    }
  });

  it('exits with 2 when it is called wrongly', () => {
    for (const args of [['--nonsense'], ['a', 'b'], ['--field', 'a..b']]) assert.equal(run(args).code, 2);
  });

  it('opens format v0 in the fields that are named, by --field or by the rules of the configuration, alone', () => {
    const own = createSealer({ keys: [{ id: 'default', key }] });
    const text = own.encrypt('5@example.com', place);
    const event = { eventId: '5', eventType: 'ORDER', payload: { email: text, comment: text, list: [text] } };
    const clear = '5@example.com';
    const config = write(
      'svc.config.json',
      JSON.stringify({ svc: { pii: { fields: [{ path: '**.email', strategy: 'ENCRYPT' }, 'comment'] } } }),
    );
    const cases: [args: string[], code: number, payload: object, failed: string[]][] = [
      [[], 1, event.payload, ['email', 'comment', 'list[*]']],
      [['--field', 'email'], 0, { ...event.payload, email: clear }, []],
      [['--field', 'email', '--field', 'list'], 0, { email: clear, comment: text, list: [clear] }, []],
      [['--any-field'], 0, { email: clear, comment: clear, list: [clear] }, []],
      [['--any-field', '--field', 'email'], 0, { ...event.payload, email: clear }, []],
      [['--config', config], 1, { ...event.payload, email: clear }, ['comment', 'list[*]']],
    ];
    for (const [args, code, payload, failed] of cases) {
      const done = run(args, JSON.stringify(event), { PII_ENCRYPTION_KEY: key });
      assert.deepEqual(
        [done.code, (JSON.parse(done.out) as typeof event).payload],
        [code, payload],
        args.join(' '),
      );
      const named = [...done.err.matchAll(/event 5, (\S+): .*\(SVC_CONSUMER_FIELD_NOT_NAMED\)$/gm)];
      assert.deepEqual(
        named.map((match) => match[1]),
        failed,
      );
    }
  });

  it('goes on after a line that looks like the beginning of a document, and after one that cannot be written', () => {
    const good = JSON.stringify(envelope('1'));
    const deep = `{"eventId":"2","eventType":"E","metadata":${'['.repeat(50_000)}${']'.repeat(50_000)},"payload":{}}`;
    const cases: [lines: string[], records: number, failures: number][] = [
      [['[garbage', good, good], 3, 1],
      [['{', good, good], 3, 1],
      [[good, '[garbage', good, '{', good], 5, 2],
      [[good, `[${good},${good}]`, good], 4, 0],
      [[good, deep, good], 3, 1],
      [['{', '"eventId": 1,'], 1, 1],
    ];
    for (const [lines, records, failures] of cases) {
      const { code, out, err } = run(['--keys-file', keysFile], lines.join('\n'));
      const opened = records - failures;
      assert.match(
        err,
        new RegExp(`^svc: ${records} records, ${opened} fields decrypted, ${failures} failures$`, 'm'),
      );
      assert.equal(out, `${JSON.stringify(envelope('1', '1@example.com'))}\n`.repeat(opened));
      assert.equal(code, failures === 0 ? 0 : 1);
    }
  });

  it('writes nothing that steers a terminal, and the same JSON', () => {
    const evil = 'a\u009b2J\u007f\u202egpj.exe\u2066\u200b';
    const event = { ...envelope('1'), eventType: 'ORDER', [evil]: evil, metadata: { userId: evil } };
    for (const args of [[], ['--json']]) {
      const { code, out, err } = run([...args, '--keys-file', keysFile], JSON.stringify(event));
      assert.equal(code, 0);
      assert.doesNotMatch(out + err, /(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
      const shown = JSON.parse(out) as { envelopes?: object[] };
      assert.deepEqual(shown.envelopes?.[0] ?? shown, { ...event, payload: { email: '1@example.com' } });
    }
    const { err } = run(['--keys-file', join(folder, `${evil}.json`)]);
    assert.doesNotMatch(err, /(?!\n)[\p{Cc}\p{Cf}]/u);
  });
});
