import assert from 'node:assert/strict';
import fc from 'fast-check';
import { formatProblem } from '../../../src/config/check/check.ts';
import { loadConfig } from '../../../src/config/read/load.ts';
import { type Option, options, targetsName } from '../../../src/config/schema/schema.ts';
import { targetFields } from '../../../src/config/schema/target.ts';
import { folderWith, removeFolders } from '../config-folder.ts';
import { canaryOf, wrongFiles, wrongVariables } from '../wrong-secrets.ts';

const secrets = options.filter((option) => option.secret);

/** All that a process would say of this configuration. */
function said(files: Record<string, string>, env: Record<string, string>, code?: object): string {
  const loaded = loadConfig({ cwd: folderWith(files), env, ...(code && { code }) });
  const ofTargets = loaded.targetProblems.flatMap(({ id, problems }) => [
    { name: id, message: '' },
    ...problems,
  ]);
  return [...loaded.problems, ...loaded.warnings, ...ofTargets].map(formatProblem).join('\n');
}

function assertHidden(text: string, canary: string, what: string): void {
  for (const part of [canary, canary.toLowerCase(), canary.slice(0, 8), canary.slice(-8)])
    assert.ok(!text.includes(part), `${what}: ${text}`);
}

describe('the text of a secret is in no message', () => {
  afterEach(removeFolders);

  it('all secret options are meant', () => {
    assert.ok(secrets.length >= 7, `${secrets.length}`);
  });

  for (const option of secrets) {
    it(`${option.name}, wrong in every way, in every kind of file`, () => {
      const canary = canaryOf(option);
      for (const [what, files] of wrongFiles(option, canary)) {
        const text = said(files, { SVC_BROKER_TOPIC: 'orders' });
        assertHidden(text, canary, what);
        assert.notEqual(text, '', `${what} is no mistake, so that it proves nothing`);
      }
    });

    it(`${option.name}, wrong in every variable of the environment`, () => {
      const canary = canaryOf(option);
      for (const [what, env] of wrongVariables(option, canary)) assertHidden(said({}, env), canary, what);
    });
  }

  it('in the place of any other option, section, target or field of one', () => {
    const canary = 'Qx7vZk2Wm9Jp4Ht6';
    const names = [
      ...options.map(({ name }) => name),
      'svc',
      'management',
      ...sectionsOf(options),
      targetsName,
    ];
    for (const name of names)
      for (const value of [canary, [canary], { [canary]: canary }, [{ [canary]: 1 }], () => canary])
        assertHidden(said({}, {}, { [name]: value }), canary, `${name}: ${JSON.stringify(value)}`);
    for (const { name } of targetFields.filter((field) => !['module', 'function'].includes(field.name)))
      for (const value of [canary, { [canary]: 1 }, [7, { path: canary, type: canary }]]) {
        const text = said({}, {}, { svc: { targets: [{ module: 'a', function: 'b', [name]: value }] } });
        assertHidden(text, canary, `${name}: ${JSON.stringify(value)}`);
      }
    const key = said({}, {}, { svc: { targets: [{ module: 'a', function: 'b', [canary]: 1 }] } });
    assertHidden(key, canary, 'the name of a field');
  });

  it('whatever it looks like', () => {
    fc.assert(
      fc.property(
        fc.string({ minLength: 12, maxLength: 40 }),
        fc.constantFrom(...secrets),
        (secret, option) => {
          const parts = option.name.split('.');
          const parent = parts.slice(0, -1).join('.');
          fc.pre(/[0-9A-Z]{3}/.test(secret));
          for (const code of [
            { [parent]: secret },
            { [option.name]: [secret] },
            { [option.name]: { [secret]: 1 } },
          ])
            assert.ok(!said({}, {}, code).includes(secret));
        },
      ),
      { numRuns: 300 },
    );
  });

  it('an address with user and password is refused, and neither is shown', () => {
    for (const { name } of options.filter(({ format }) => format === 'url'))
      for (const address of ['https://me:hunter2@host', 'https://hunter2@host/x', 'https://:hunter2@host']) {
        const text = said({}, {}, { 'svc.broker.topic': 'a', [name]: address });
        assert.match(text, /must be an http or https URL, without user and password, got a string/, name);
        assert.doesNotMatch(text, /hunter2/);
      }
  });

  it('a key or certificate in the place of its file is no path', () => {
    const pem = '-----BEGIN PRIVATE KEY-----\nMIIEvQhunter2\n-----END PRIVATE KEY-----\n';
    for (const { name } of options.filter(({ format }) => format === 'path')) {
      const text = said({}, {}, { 'svc.broker.tls.enabled': true, [name]: pem });
      assert.match(text, /must be a path, got a string/, name);
      assert.doesNotMatch(text, /hunter2/);
    }
  });
});

describe('secrets in a configuration file', () => {
  afterEach(removeFolders);
  const yaml = (svc: object) => ({ 'svc.config.json': JSON.stringify({ svc }) });
  const code = (text: string) => ({ 'svc.config.mjs': `export default { svc: ${text} }` });
  const key = Buffer.alloc(32, 7).toString('base64');
  for (const [what, files, names] of [
    ['a password', yaml({ broker: { sasl: { password: 'hunter2' } } }), ['svc.broker.sasl.password']],
    ['a salt', yaml({ pii: { crypto: { salt: 'hunter2' } } }), ['svc.pii.crypto.salt']],
    ['keys', yaml({ pii: { crypto: { keys: [{ id: 'a', key }] } } }), ['svc.pii.crypto.keys']],
    [
      'a URL with a password',
      yaml({ outbox: { datasource: { url: 'postgres://u:hunter2@h/d' } } }),
      ['svc.outbox.datasource.url'],
    ],
    [
      'a URL with a token',
      yaml({ serde: { schemaRegistryUrl: 'https://h/?api_key=hunter2' } }),
      ['svc.serde.schema-registry-url'],
    ],
    [
      'a URL without',
      yaml({
        outbox: { datasource: { url: 'postgres://u@h:5432/d' } },
        serde: { schemaRegistryUrl: 'https://h:1/a?b=c' },
      }),
      [],
    ],
    ['a file', yaml({ outbox: { datasource: { url: 'sqlite:./a.db' } } }), []],
    ['code, as text', code(`{ pii: { crypto: { salt: 'hunter2' } } }`), ['svc.pii.crypto.salt']],
    ['code, from the environment', code(`{ pii: { crypto: { salt: process.env.SALT_OF_TEST } } }`), []],
    [
      'code, keys as text',
      code(`{ pii: { crypto: { keys: [{ id: 'a', key: "${key}" }] } } }`),
      ['svc.pii.crypto.keys'],
    ],
  ] as const)
    it(`${what}: ${names.length === 0 ? 'not told' : 'told'}`, () => {
      process.env.SALT_OF_TEST = 'hunter2';
      const { warnings } = loadConfig({ cwd: folderWith(files), env: {} });
      const told = warnings.filter(({ message }) => message.startsWith('is a secret'));
      assert.deepEqual(
        told.map(({ name }) => name),
        names,
      );
      for (const { name, fix = '' } of told)
        assert.ok(fix.includes(name.toUpperCase().replace(/\W/g, '_')), fix);
      assert.doesNotMatch(JSON.stringify(warnings), /hunter2/);
    });
});

describe('names in messages', () => {
  afterEach(removeFolders);
  for (const [name, shown] of [
    ['svc.topic.requestTimeoutMs', 'svc.topic.requestTimeoutMs'],
    ['svc.brokr.tpoic', 'svc.brokr.tpoic'],
    ['svc.broker.request_timeout', 'svc.broker.request_timeout'],
    ['svc.broker.hunter2', 'svc.broker.?'],
    ['svc.broker.hunter2-timeout', 'svc.broker.?'],
    ['hunter2.topic', '?.topic'],
    ['svc.\u202ebroker', 'svc.?'],
    ['', ''],
  ] as const)
    it(`${JSON.stringify(name)} is shown as ${JSON.stringify(shown)}`, () => {
      const { problems } = loadConfig({ cwd: folderWith(), env: {}, code: { [name]: 1 } });
      const unknown = problems.filter(({ message }) => message === 'is an unknown name');
      assert.deepEqual(
        unknown.map((problem) => problem.name),
        [shown],
      );
    });
});

function sectionsOf(all: readonly Option[]): string[] {
  return [...new Set(all.map(({ name }) => name.slice(0, name.lastIndexOf('.'))))];
}
