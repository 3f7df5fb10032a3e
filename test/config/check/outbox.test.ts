import assert from 'node:assert/strict';
import { join } from 'node:path';
import { formatProblem } from '../../../src/config/check/check.ts';
import { loadConfig } from '../../../src/config/read/load.ts';
import { folderWith, lines, loadCode, loadYaml, removeFolders } from '../config-folder.ts';

const name = 'svc.outbox.datasource.url';
const form =
  'must be a postgres://, postgresql://, mysql:// or mariadb:// URL with percent-encoded special characters in the password, or sqlite: and a file path';

describe('the datasource of the outbox', () => {
  afterEach(removeFolders);

  const load = (outbox: object, env: NodeJS.ProcessEnv = {}, cwd = folderWith()) =>
    loadConfig({ cwd, env, code: { 'svc.broker.topic': 'orders', svc: { outbox } } });

  it('is required while the outbox is on', () => {
    assert.deepEqual(lines(load({ enabled: true }).problems), [
      'svc.outbox.datasource.url: is required when svc.outbox.enabled is true (code). Set it in the file, or one of the environment variables SVC_OUTBOX_DATASOURCE_URL and DATABASE_URL.',
    ]);
    assert.deepEqual(load({ enabled: false }).problems, []);
  });

  it('is DATABASE_URL where nothing else says it', () => {
    const found = (outbox: object, env: NodeJS.ProcessEnv) => {
      const loaded = load(outbox, env);
      assert.deepEqual(loaded.problems, []);
      return loaded.config.outbox.datasource.url;
    };
    const env = { DATABASE_URL: 'postgres://a/b' };
    assert.equal(found({ enabled: true }, env), 'postgres://a/b');
    assert.equal(found({ enabled: true, datasource: { url: 'mysql://c/d' } }, env), 'mysql://c/d');
    assert.equal(
      found({ enabled: true }, { ...env, SVC_OUTBOX_DATASOURCE_URL: 'mariadb://e/f' }),
      'mariadb://e/f',
    );
    const ofFile = loadYaml(
      'svc: { broker: { topic: a }, outbox: { enabled: true, datasource: { url: "mysql://g/h" } } }',
      env,
    );
    assert.equal(ofFile.config.outbox.datasource.url, 'mysql://g/h');
    const switchedOn = loadYaml('svc.broker.topic: a', { ...env, SVC_OUTBOX_ENABLED: '1' });
    assert.equal(switchedOn.config.outbox.datasource.url, 'postgres://a/b');
  });

  it('is no business of svc while the outbox is off, whatever DATABASE_URL says', () => {
    for (const outbox of [{}, { enabled: false }]) {
      const { problems, warnings, config } = load(outbox, { DATABASE_URL: 'sqlserver://a' });
      assert.deepEqual([problems, warnings, config.outbox.datasource.url], [[], [], undefined]);
    }
  });

  it('names the schemes that are known, and where the wrong one stands', () => {
    assert.deepEqual(lines(load({ enabled: true }, { DATABASE_URL: 'sqlserver://me:hunter2@a' }).problems), [
      `${name}: ${form} (environment variable DATABASE_URL).`,
    ]);
    const url = 'postgres://me:hunter2/x@db/orders';
    assert.deepEqual(lines(load({ datasource: { url } }).problems), [`${name}: ${form} (code).`]);
  });

  it('never shows its password', () => {
    const urls = [
      'oracle://me:hunter2@a',
      'postgres://me:hunter2 @a',
      'postgres://me:hunter2/@a/b',
      ['hunter2'],
    ];
    for (const url of urls) {
      const { problems, warnings } = load({ enabled: true, datasource: { url } });
      assert.equal(problems.length, 1);
      assert.doesNotMatch([...problems, ...warnings].map(formatProblem).join('\n'), /hunter2/);
    }
  });

  it('a file of SQLite is looked for from the folder of the configuration', () => {
    const cwd = folderWith({
      'svc.config.yaml':
        'svc: { broker: { topic: a }, outbox: { datasource: { url: "sqlite:./data/app.db" } } }',
    });
    const found = (env: NodeJS.ProcessEnv) => loadConfig({ cwd, env }).config.outbox.datasource.url;
    assert.equal(found({}), `sqlite:${join(cwd, 'data/app.db')}`);
    assert.equal(found({ SVC_OUTBOX_DATASOURCE_URL: 'sqlite:/var/app.db' }), 'sqlite:/var/app.db');
    assert.equal(found({ SVC_OUTBOX_DATASOURCE_URL: 'sqlite:///var/app.db' }), 'sqlite:/var/app.db');
  });
});

describe('the time that rows of the outbox are kept', () => {
  afterEach(removeFolders);

  const warningsOf = (outbox: object) => {
    const { problems, warnings } = loadCode({
      outbox: { enabled: true, datasource: { url: 'sqlite:a.db' }, ...outbox },
    });
    assert.deepEqual(problems, []);
    return lines(warnings);
  };

  it('needs the cleanup, or a warning says so', () => {
    const both = { retentionDays: 3, failedRetentionDays: 9 };
    const says =
      'has no effect while svc.outbox.cleanup-enabled is false (code). Set svc.outbox.cleanup-enabled: true.';
    assert.deepEqual(warningsOf(both), [
      `svc.outbox.retention-days: ${says}`,
      `svc.outbox.failed-retention-days: ${says}`,
    ]);
    assert.deepEqual(warningsOf({ ...both, cleanupEnabled: true }), []);
    assert.deepEqual(warningsOf({ ...both, enabled: false }), []);
    assert.deepEqual(warningsOf({}), []);
  });

  it('of 0 needs none: a row is deleted when it is sent', () => {
    assert.deepEqual(warningsOf({ retentionDays: 0 }), []);
  });
});

describe('targets with an outbox', () => {
  afterEach(removeFolders);

  const good = { aggregateType: 'Order', aggregateId: '#result.id' };
  const on = { enabled: true, datasource: { url: 'sqlite:a.db' } };
  const load = (target: object, svc: object = { outbox: on }) => {
    const loaded = loadCode({
      ...svc,
      targets: [{ module: './src/orders.ts', function: 'create', ...target }],
    });
    assert.deepEqual(loaded.problems, []);
    return loaded;
  };
  const problemsOf = (target: object, svc?: object): string[] => {
    const { config, targetProblems } = load(target, svc);
    assert.equal(config.targets.length + targetProblems.length, 1);
    return lines(targetProblems.flatMap(({ problems }) => problems));
  };

  it('are taken, in both spellings; an event that fails its transaction fails its call', () => {
    const [target] = load({
      outbox: { 'aggregate-type': 'Order', aggregateId: '#p0', result: 'TRANSACTION' },
    }).config.targets;
    assert.deepEqual(target?.outbox, { aggregateType: 'Order', aggregateId: '#p0', result: 'transaction' });
    assert.deepEqual([target?.failOnError, target?.afterCommit], [true, false]);
    const aggregateId = () => 7;
    assert.equal(
      load({ outbox: { ...good, aggregateId } }).config.targets[0]?.outbox?.aggregateId,
      aggregateId,
    );
    assert.deepEqual(problemsOf({ outbox: good, phase: 'AFTER_RETURNING', failOnError: true }), []);
    assert.deepEqual(problemsOf({ outbox: good, afterCommit: false }), []);
  });

  it('afterCommit needs no outbox', () => {
    const [target] = load({ 'after-commit': true }, {}).config.targets;
    assert.deepEqual([target?.afterCommit, target?.outbox, target?.failOnError], [true, undefined, false]);
    assert.deepEqual(problemsOf({ afterCommit: 'yes' }), [
      'svc.targets[0].afterCommit: must be true or false, got a string (code).',
    ]);
  });

  for (const [outbox, ...said] of [
    [{}, 'aggregateType is required (code).', 'aggregateId is required (code).'],
    [{ aggregateType: 'Order' }, 'aggregateId is required (code).'],
    [{ aggregateId: '#result.id' }, 'aggregateType is required (code).'],
    [{ ...good, aggregateType: null }, 'aggregateType is required (code).'],
    [
      { ...good, aggregateType: `${'é'.repeat(32_767)}ab` },
      'aggregateType must have at most 65535 bytes in UTF-8 (code).',
    ],
    [{ ...good, aggregateType: ' ' }, 'aggregateType must not be empty, got a string (code).'],
    [
      { ...good, aggregateType: 7 },
      'aggregateType must be a string, got 7 (number) (code). Put it in quotes.',
    ],
    [{ ...good, aggregateId: '' }, 'aggregateId must not be empty, got an empty string (code).'],
    [
      { ...good, aggregateId: true },
      'aggregateId must be a string or a function, got true (boolean) (code).',
    ],
    [{ ...good, result: 'function' }, 'result must be one of transaction, got a string (code).'],
    [{ ...good, aggregateTyp: 'Order' }, 'has an unknown field (code). Did you mean aggregateType?'],
    [{ ...good, hunter2: 1 }, 'has an unknown field (code). Known are aggregateType, aggregateId, result.'],
    [
      true,
      'must be an object, got true (boolean) (code). Write { aggregateType: Order, aggregateId: "#result.id" }.',
    ],
    [
      '#result.id',
      'must be an object, got a string (code). Write { aggregateType: Order, aggregateId: "#result.id" }.',
    ],
  ] as const)
    it(`${JSON.stringify(outbox)}: ${said.join(' ')}`, () => {
      assert.deepEqual(
        problemsOf({ outbox }),
        said.map((text) => `svc.targets[0].outbox: ${text}`),
      );
    });

  it('are left out while the outbox is off: a direct send would break the promise', () => {
    const says =
      'svc.targets[0].outbox: needs svc.outbox.enabled: true: a direct send would not be part of the transaction (code). Set svc.outbox.enabled: true, or remove outbox.';
    assert.deepEqual(problemsOf({ outbox: good }, {}), [says]);
    assert.deepEqual(problemsOf({ outbox: good }, { outbox: { ...on, enabled: false } }), [says]);
  });

  for (const [fields, said] of [
    [
      { phase: 'BEFORE', payloadIndex: 0 },
      'phase: BEFORE cannot be combined with outbox: an event of a transaction reports a call that succeeded (code). Use AFTER_RETURNING, or remove outbox.',
    ],
    [
      { phase: 'AFTER' },
      'phase: AFTER cannot be combined with outbox: an event of a transaction reports a call that succeeded (code). Use AFTER_RETURNING, or remove outbox.',
    ],
    [
      { callback: 'last' },
      'callback: cannot be combined with outbox: the transaction may be over when the callback is called (code). Capture a function that returns a promise, or remove outbox.',
    ],
    [
      { afterCommit: true },
      'afterCommit: cannot be combined with outbox, whose events are always sent after the commit (code). Keep one of them.',
    ],
    [
      { failOnError: false },
      'failOnError: false cannot be combined with outbox: an event that is not stored fails its transaction (code). Remove failOnError, or remove outbox.',
    ],
  ] as const)
    it(`do not go with ${JSON.stringify(fields)}`, () => {
      assert.deepEqual(problemsOf({ outbox: good, ...fields }), [`svc.targets[0].${said}`]);
      assert.deepEqual(problemsOf(fields), []);
    });

  it('show no marked field as their aggregate id', () => {
    const pii = { fields: ['customer.email'] };
    const of = (aggregateId: unknown) =>
      problemsOf({ outbox: { ...good, aggregateId } }, { outbox: on, pii });
    assert.deepEqual(of('#result.customer.email'), [
      'svc.targets[0].outbox.aggregateId: shows in clear what the rule for customer.email protects (MASK): "#result.customer.email" (code). Use another field.',
    ]);
    assert.deepEqual(of('#result.customer.id'), []);
    assert.deepEqual(
      of(() => 'a'),
      [],
    );
  });
});
