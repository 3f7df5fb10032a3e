import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { formatProblem } from '../../src/config/check/check.ts';
import { loadConfig } from '../../src/config/read/load.ts';
import type { Envelope } from '../../src/envelope/envelope.ts';
import type { SvcError } from '../../src/ground/errors.ts';
import { PiiField } from '../../src/protect/marks/policy.ts';
import { createProtection, type Protection } from '../../src/protect/protection.ts';
import {
  invalidateEncryptionKeys,
  type RunningService,
  runningService,
} from '../../src/publish/api/publish.ts';
import { openProvider } from '../../src/start/adapters.ts';
import { useLogger } from '../support/log.ts';
import { forgetMarks } from './forget-marks.ts';

const key = createHash('sha256').update('a key').digest('base64');

describe('protection as it is configured', () => {
  let lines: string[];
  let protection: Protection | undefined;
  let server: Server | undefined;
  beforeEach(() => {
    forgetMarks();
    lines = [];
  });
  afterEach(async () => {
    await protection?.close();
    server?.close();
  });

  const note = (line: string) => void lines.push(line);
  const logger = { debug: note, info: note, warn: note, error: note };

  function configOf(pii: object) {
    const { config, problems } = loadConfig({ env: {}, code: { svc: { broker: { topic: 't' }, pii } } });
    assert.deepEqual(problems.map(formatProblem), []);
    return config;
  }
  function startWith(pii: object): Protection {
    useLogger(logger);
    protection = createProtection(configOf(pii), openProvider);
    return protection;
  }
  function publish(payload: unknown, eventType = 'E'): Record<string, unknown> {
    const protect = protection?.protect ?? assert.fail();
    return protect({ template: { eventType }, payload } as Envelope).payload as Record<string, unknown>;
  }
  const codeOf = (work: () => unknown): string => {
    try {
      work();
    } catch (error) {
      return (error as SvcError).code;
    }
    return 'none';
  };

  it('encrypts, hashes and masks', () => {
    const fields = ['a=EMAIL:ENCRYPT', 'b=EMAIL:HASH', 'c=EMAIL'];
    startWith({ fields, crypto: { defaultKey: key, salt: 'a salt of sixteen', format: 'v1' } });
    const { a, b, c } = publish({ a: 'x', b: 'x', c: 'x' });
    assert.match(String(a), /^ENC\(v1:default:/);
    assert.match(String(b), /^HASH\(/);
    assert.equal(c, '****');
    assert.deepEqual(lines, []);
  });

  it('encrypts with the primary of several keys', () => {
    const keys = [{ id: 'new', key, status: 'primary' }];
    startWith({ fields: ['a=:ENCRYPT'], crypto: { defaultKey: key, keys, format: 'v1' } });
    assert.match(String(publish({ a: 'x' }).a), /^ENC\(v1:new:/);
  });

  it('warns of a key and a salt that are not random, once, and where they are used alone', () => {
    const crypto = {
      defaultKey: 'k'.repeat(32),
      salt: 's'.repeat(32),
      keys: [{ id: 'old', key, status: 'decrypt' }],
    };
    startWith({ fields: ['a'], crypto });
    assert.deepEqual(lines, []);
    const rule = { path: 'b', type: 'EMAIL', strategy: 'ENCRYPT', level: 'NORMAL' } as const;
    protection?.addRules(
      'E',
      [rule, { ...rule, path: 'c' }, { ...rule, path: 'd', strategy: 'HASH' }],
      'a target',
    );
    assert.deepEqual(lines, [
      'SECURITY: the encryption key "default" is not random and can be guessed: make one with openssl rand -base64 32',
      'SECURITY: svc.pii.crypto.salt is not random and can be guessed: generate a random one',
    ]);
    assert.match(String(publish({ b: 'x' }).b), /^ENC\(/);
  });

  it('warns of the default salt where something is hashed, and only there', () => {
    const warning = /^SECURITY: no svc\.pii\.crypto\.salt/;
    startWith({ fields: ['a'] });
    assert.deepEqual(lines, []);
    protection?.addRules('E', [{ path: 'b', type: 'EMAIL', strategy: 'HASH', level: 'NORMAL' }], 'a target');
    assert.match(lines.join('\n'), warning);
    assert.match(String(publish({ b: 'x' }).b), /^HASH\(/);
    assert.equal(lines.length, 1);
  });

  it('says once what a mark needs and does not have, and refuses its events', () => {
    startWith({ crypto: { requireSalt: true } });
    class User {
      secret = 'x';
      digest = 'x';
    }
    PiiField({ strategy: 'ENCRYPT', keyId: 'none-of-them' })(User.prototype, 'secret');
    assert.equal(
      codeOf(() => publish(new User())),
      'SVC_PROTECT_KEY_UNKNOWN',
    );
    class Other {
      digest = 'x';
    }
    PiiField({ strategy: 'HASH' })(Other.prototype, 'digest');
    assert.equal(
      codeOf(() => publish(new Other())),
      'SVC_PROTECT_NO_SALT',
    );
    assert.equal(lines.filter((line) => line.includes('none-of-them')).length, 1, lines.join('\n'));
    assert.equal(lines.filter((line) => line.includes('salt is not configured')).length, 1, lines.join('\n'));
  });

  it('protects nothing where it is switched off, and says so where something is marked', () => {
    class User {
      email = 'x';
    }
    PiiField()(User.prototype, 'email');
    startWith({ enabled: false });
    assert.deepEqual({ ...publish(new User()) }, { email: 'x' });
    assert.deepEqual(lines, ['svc.pii.enabled is false: marked fields are published in clear']);
  });

  it('takes keys from a service: refused until the key is there, then encrypted', async () => {
    const asked: string[] = [];
    let answer = (): void => {};
    const answered = new Promise<void>((resolve) => (answer = resolve));
    server = createServer(async (request, response) => {
      asked.push(`${request.headers['x-vault-token']} ${request.url}`);
      await answered;
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ data: { data: { key }, metadata: { version: 1 } } }));
    });
    await new Promise<void>((resolve) => server?.listen(0, '127.0.0.1', resolve));
    const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const vault = { address, token: 't', defaultKeyPath: 'pii/customer' };
    startWith({ fields: ['a=:ENCRYPT'], kms: { enabled: true, type: 'vault', vault } });
    assert.equal(
      codeOf(() => publish({ a: 'x' })),
      'SVC_PROTECT_KEY_UNAVAILABLE',
    );
    answer();
    let result: unknown;
    for (let tries = 0; tries < 200 && result === undefined; tries++) {
      await new Promise((resolve) => setTimeout(resolve, 10));
      try {
        result = publish({ a: 'x' }).a;
      } catch {
        // Not there yet.
      }
    }
    assert.match(String(result), /^ENC\(/);
    assert.deepEqual(asked, ['t /v1/secret/data/pii/customer']);
  });

  it('tells health of the keys that rules and marks need, and of nothing else', async () => {
    startWith({ crypto: { keys: [{ id: 'unused', key }] } });
    assert.deepEqual(protection?.keys(), []);
    await protection?.close();
    startWith({ fields: ['a=:ENCRYPT', 'b=:ENCRYPT'], crypto: { defaultKey: key, requireSalt: true } });
    const configured = { provider: 'configuration', keyId: 'default', status: 'UP' };
    assert.deepEqual(protection?.keys(), [configured]);
    class User {
      secret = 'x';
      digest = 'x';
    }
    PiiField({ strategy: 'ENCRYPT', keyId: 'absent' })(User.prototype, 'secret');
    PiiField({ strategy: 'HASH' })(User.prototype, 'digest');
    assert.deepEqual(protection?.keys().slice(1), [
      {
        provider: 'configuration',
        keyId: 'absent',
        status: 'DOWN',
        error: 'no encryption key with the id "absent" is configured',
      },
      {
        provider: 'configuration',
        keyId: 'salt',
        status: 'DOWN',
        error: 'PII hash salt is not configured; set PII_HASH_SALT',
      },
    ]);
  });

  it('names path rules that have met nothing: after many events, and in the report at the end', () => {
    startWith({ fields: ['customer.email', 'custmer.phone'] });
    protection?.addRules(
      'E',
      [{ path: 'nmae', type: 'NAME', strategy: 'MASK', level: 'NORMAL' }],
      './a.ts#f',
    );
    assert.deepEqual(protection?.remarks(), [], 'nothing was published so far');
    for (let event = 0; event < 999; event++) publish({ customer: { email: 'a@b.cc' }, name: 'x' });
    assert.deepEqual(lines, []);
    const report = 'personal data: these paths were in no payload';
    const ofTarget = 'personal data: the path "nmae" of ./a.ts#f was in none of 1000 payloads: check it';
    assert.deepEqual(protection?.remarks(), [
      `${report}\n  nmae  of ./a.ts#f, payloads: 999\n  custmer.phone  of svc.pii.fields, payloads: 999`,
    ]);
    publish({});
    assert.deepEqual(lines, [ofTarget]);
    assert.deepEqual(
      protection?.remarks(),
      [`${report}\n  custmer.phone  of svc.pii.fields, payloads: 1000`],
      'each is named once',
    );
    const many = Array.from(
      { length: 30 },
      (_, at) => ({ path: `p${at}`, type: 'NAME', strategy: 'MASK', level: 'WEAK' }) as const,
    );
    protection?.addRules('MANY', many, 't');
    publish({}, 'MANY');
    assert.match(protection?.remarks()[0] ?? '', /p19 .*\n {2}and 11 more$/);
  });

  it('says it when the service refuses', async () => {
    server = createServer((_, response) => response.writeHead(403).end('{"errors":["permission denied"]}'));
    await new Promise<void>((resolve) => server?.listen(0, '127.0.0.1', resolve));
    const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const vault = { address, token: 't', defaultKeyPath: 'customer' };
    startWith({ fields: ['a=:ENCRYPT'], kms: { enabled: true, type: 'vault', vault } });
    for (let tries = 0; tries < 200 && lines.length === 0; tries++)
      await new Promise((resolve) => setTimeout(resolve, 10));
    assert.match(lines.join('\n'), /^personal data: the key "default" is unavailable: Vault[^\n]*$/);
    const [state] = protection?.keys() ?? [];
    assert.deepEqual([state?.provider, state?.keyId, state?.status], ['vault-kv-v2', 'default', 'DOWN']);
    assert.match(state?.error ?? '', /^Vault at http.*token/);
    assert.match(
      codeOf(() => publish({ a: 'x' })),
      /^SVC_PROTECT_KEY_/,
    );
  });

  it('forgets the keys of a service when it is told to, and refuses events until it has fetched them anew', async () => {
    let asked = 0;
    let isDown = false;
    const answer = {
      data: { data: { key: Buffer.alloc(32, 7).toString('base64') }, metadata: { version: 1 } },
    };
    server = createServer((_, response) => {
      asked++;
      response.writeHead(isDown ? 503 : 200).end(isDown ? '{}' : JSON.stringify(answer));
    });
    await new Promise<void>((resolve) => server?.listen(0, '127.0.0.1', resolve));
    const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const vault = { address, token: 't', defaultKeyPath: 'customer' };
    startWith({ fields: ['a=:ENCRYPT'], kms: { enabled: true, type: 'vault', vault } });
    for (let tries = 0; tries < 200 && protection?.keys()[0]?.status !== 'UP'; tries++)
      await new Promise((resolve) => setTimeout(resolve, 10));
    const before = asked;
    assert.match(JSON.stringify(publish({ a: 'x' })), /ENC\(/);
    assert.equal(asked, before);
    const current = {
      invalidateEncryptionKeys: () => protection?.invalidateKeys(),
    } as unknown as RunningService;
    runningService.current = current;
    try {
      await invalidateEncryptionKeys();
      assert.equal(asked, before + 1);
      assert.match(JSON.stringify(publish({ a: 'x' })), /ENC\(/);
      isDown = true;
      await invalidateEncryptionKeys();
      assert.match(
        codeOf(() => publish({ a: 'x' })),
        /^SVC_PROTECT_KEY_UNAVAILABLE$/,
      );
    } finally {
      runningService.current = undefined;
    }
    await invalidateEncryptionKeys();
  });
});
