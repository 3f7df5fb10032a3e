import assert from 'node:assert/strict';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { type SecureKafka, startSecureKafka } from '../../support/kafka.ts';
import { requiring } from '../../support/requires.ts';
import { plainApp } from '../support/apps.ts';
import { findNode20 } from '../support/old-node.ts';
import { type AppEnd, type AppOptions, endOf, startApp } from '../support/start-app.ts';
import { subject } from '../support/subject.ts';
import { configOf } from '../support/topic-config.ts';

const main = `
  async function order(id) { return { id }; }
  console.log('ran', (await order(1)).id);`;
const target = { module: './main.mjs', function: 'order', eventType: 'ORDERED' };

let app: string;
before('npm install', function () {
  this.timeout(180_000);
  app = plainApp();
});

/** Runs an application under svc, and checks that it ran as it would without. */
async function run(files: AppOptions['files'], options: Partial<AppOptions> = {}): Promise<AppEnd> {
  const end = await endOf({ app, files: { 'main.mjs': main, ...files }, ...options });
  assert.deepEqual([end.stdout, end.code, end.signal], ['ran 1\n', 0, null], end.stderr);
  return end;
}

/** Without the line that says which file is meant. */
const linesOf = ({ stderr }: AppEnd): string[] =>
  stderr
    .split('\n')
    .slice(0, -1)
    .filter((line) => !line.startsWith('svc: configuration /'));
const notStarted = 'svc: error: not started because of the configuration; the application runs without svc';

describe('a configuration that is wrong: clear lines, and the application runs', function () {
  this.timeout(60_000);

  const cases: readonly [
    title: string,
    files: AppOptions['files'],
    expected: readonly (string | RegExp)[],
    env?: Record<string, string>,
  ][] = [
    [
      'none',
      {},
      [
        /^svc: no configuration: looked for svc\.config\..* Create svc\.config\.yaml \(npx --no svc init\), or name a file in SVC_CONFIG\.$/,
      ],
    ],
    [
      'an empty file',
      { 'svc.config.yaml': '' },
      ['svc: warn: svc.config.yaml: is empty.', /^svc: error: .*Kafka topic is required/, notStarted],
    ],
    [
      'no topic',
      { 'svc.config.json': { svc: { targets: [target] } } },
      [/^svc: error: svc\.broker\.topic: Kafka topic is required/, notStarted],
    ],
    [
      'wrong types, all at once',
      {
        'svc.config.yaml': 'svc:\n  broker: { topic: events, async-mode: maybe, request-timeout-ms: 30s }\n',
      },
      [
        /^svc: error: svc\.broker\.async-mode: .*got a string.*svc\.config\.yaml:2/,
        /^svc: error: svc\.broker\.request-timeout-ms: .*got a string.*svc\.config\.yaml:2/,
        notStarted,
      ],
    ],
    [
      'a name that does not exist, with the nearest one',
      {
        'svc.config.json': {
          svc: { brokr: { topic: 'events' }, broker: { topic: 'events', 'asinc-mode': true } },
        },
      },
      [
        /svc\.brokr.*Did you mean svc\.broker\b/,
        /svc\.broker\.asinc-mode.*Did you mean svc\.broker\.async-mode\?/,
      ],
    ],
    [
      'worker id 1024',
      { 'svc.config.json': configOf([target], { 'id-generator': { 'worker-id': 1024 } }) },
      [/workerId must be between 0 and 1023/, notStarted],
    ],
    [
      'a topic that Kafka refuses',
      { 'svc.config.json': configOf([target], { broker: { topic: 'my events' } }) },
      [/^svc: error: svc\.broker\.topic: .*got a string/, notStarted],
    ],
    [
      'a dead letter topic that is the topic itself',
      { 'svc.config.json': configOf([target], { broker: { 'dlq-topic': 'events' } }) },
      [
        /^svc: error: svc\.broker\.dlq-topic: dlqTopic must differ from topic: .* Name a separate topic/,
        notStarted,
      ],
    ],
    [
      'a negative number in each retry setting, all at once',
      {
        'svc.config.json': configOf([target], {
          retry: { 'max-attempts': -1, 'initial-interval': -1, multiplier: -2, 'max-interval': -1 },
          broker: { 'delivery-timeout-ms': -1, 'request-timeout-ms': -1 },
        }),
      },
      [
        /^svc: error: svc\.retry\.max-attempts: .*-1/,
        /^svc: error: svc\.retry\.initial-interval: .*-1/,
        /^svc: error: svc\.retry\.multiplier: .*-2/,
        /^svc: error: svc\.retry\.max-interval: .*-1/,
        /^svc: error: svc\.broker\.delivery-timeout-ms: .*-1/,
        /^svc: error: svc\.broker\.request-timeout-ms: .*-1/,
        notStarted,
      ],
    ],
    [
      'a file that is no YAML',
      { 'svc.config.yaml': 'svc: [' },
      [/^svc: error: svc\.config\.yaml.*/, notStarted],
    ],
    [
      'a file that is not there',
      {},
      [/^svc: error: .*nowhere\.yaml.*SVC_CONFIG/, notStarted],
      { SVC_CONFIG: 'nowhere.yaml' },
    ],
  ];

  for (const [title, files, expected, env = {}] of cases) {
    it(title, async () => {
      const end = await run(files, { env });
      const lines = linesOf(end);
      for (const line of expected) {
        const found = lines.filter((each) => (typeof line === 'string' ? each === line : line.test(each)));
        assert.equal(found.length, 1, `${line}\n${end.stderr}`);
      }
      if (expected.includes(notStarted)) {
        assert.equal(lines.length, expected.length, end.stderr);
        assert.deepEqual(end.topics, {});
      }
    });
  }

  it('targets that cannot be: each says why, and the others publish', async () => {
    const end = await run({
      'main.mjs': `${main}\nconst amount = 5; function pay() {} function ship() {} function ship2() {}`,
      'svc.config.json': configOf([
        { module: './main.mjs', function: 'pay', topic: 'no good' },
        { module: './main.mjs', function: 'ordr' },
        { module: './main.mjs', function: 'amount' },
        { module: './gone.mjs', function: 'order' },
        { module: './main.mjs', function: 'ship', payload: 'T(java.lang.Runtime).exec()' },
        { module: './main.mjs', function: 'ship2', payload: '#nobody' },
        { module: './main.mjs', function: 'ship', severity: 'LOUD' },
        target,
      ]),
    });
    assert.equal(end.topics.events?.length, 1);
    const lines = linesOf(end);
    for (const line of [
      /^svc: error: target main\.mjs#pay: .*topic.*got a string/,
      /^svc: warn: target main\.mjs#ordr is not captured: .*did you mean order\?/,
      /^svc: warn: target main\.mjs#amount is not captured: .*not a function/,
      /^svc: warn: target gone\.mjs#order is not captured: no such file: \.\/gone\.mjs/,
      /^svc: .*target main\.mjs#ship\b.*(position|at) /,
      /^svc: .*target main\.mjs#ship2\b.*nobody/,
    ]) {
      assert.equal(lines.filter((each) => line.test(each)).length, 1, `${line}\n${end.stderr}`);
    }
  });
});

describe('an environment that does not play along: clear lines, and the application runs', function () {
  this.timeout(60_000);
  let busy: Server;
  before((done) => {
    busy = createServer(() => {}).listen(0, '127.0.0.1', done);
  });
  after(() => busy.close());

  it('the management port is in use', async () => {
    const { port } = busy.address() as AddressInfo;
    const end = await run(
      { 'svc.config.json': configOf([target]), 'main.mjs': `${main}\nsetTimeout(() => {}, 1_500);` },
      { env: { MANAGEMENT_SERVER_PORT: String(port) } },
    );
    assert.match(
      end.stderr,
      new RegExp(`^svc: warn: management server not started: port ${port} of 127.0.0.1 is in use`, 'm'),
    );
    assert.equal(end.topics.events?.length, 1);
  });

  it('the folder of the topics cannot be written to', async () => {
    const end = await run({
      'svc.config.json': configOf([target], { broker: { file: { path: './main.mjs/topics' } } }),
    });
    assert.match(end.stderr, /^svc: warn: event kept in the backup: .*main\.mjs\/topics/m);
  });

  it('neither the broker nor the folder of the backup can be used: the loss is said, and why', async () => {
    const end = await run(
      {
        'svc.config.json': configOf([target], {
          broker: { 'dlq-backup-path': './main.mjs/backup' },
          retry: { 'initial-interval': 10 },
        }),
      },
      { env: { KAFKA_BROKERS: '127.0.0.1:1' } },
    );
    const lines = linesOf(end);
    for (const line of [
      /^svc: error: backup "local files" failed: the backup folder ".*main\.mjs\/backup" .*svc\.broker\.dlq-backup-path/,
      /^svc: error: event lost.*cannot reach Kafka at 127\.0\.0\.1:1/,
    ])
      assert.equal(lines.filter((each) => line.test(each)).length, 1, `${line}\n${end.stderr}`);
  });

  it('the folder of the backup cannot be used: said soon after the start, and the broker takes the event', async () => {
    const end = await run({
      'main.mjs': `${main}\nsetTimeout(() => {}, 500);`,
      'svc.config.json': configOf([target], { broker: { 'dlq-backup-path': './main.mjs/backup' } }),
    });
    assert.equal(end.topics.events?.length, 1);
    const [line, ...more] = linesOf(end).filter((each) => /error|warn|lost/.test(each));
    assert.match(
      line as string,
      /^svc: error: the backup folder ".*main\.mjs\/backup" is not used: .*main\.mjs cannot be written to \(ENOTDIR\): check svc\.broker\.dlq-backup-path and its permissions$/,
    );
    assert.deepEqual(more, []);
  });

  for (const way of ['--import', '--require']) {
    for (const [title, flags] of [
      [
        'throws at everything deprecated',
        ['--pending-deprecation', '--throw-deprecation', '--unhandled-rejections=strict'],
      ],
      ['has frozen intrinsics', ['--frozen-intrinsics', '--disable-warning=ExperimentalWarning']],
    ] as const) {
      it(`a Node that ${title}, ${way}`, async () => {
        const end = await run(
          { 'svc.config.json': configOf([target, { module: 'signal-exit', function: 'onExit' }]) },
          { args: [...flags, way, 'svc/register', 'main.mjs'] },
        );
        assert.doesNotMatch(end.stderr, /deprecat/i);
        const { hasSoundSyncHooks } = await subject();
        // An older Node reaches less, and svc says so.
        const unloaded =
          /^svc: warn: capture: 1 of 2 .*\n {2}UNLOADED {2}signal-exit#onExit {2}its package was never loaded$/m;
        if (hasSoundSyncHooks) assert.doesNotMatch(end.stderr.replace(unloaded, ''), /warn|error|could not/i);
        assert.equal(end.topics.events?.length, hasSoundSyncHooks || way === '--import' ? 1 : undefined);
      });
    }
  }

  it('nobody reads its standard error any more', async () => {
    const running = await startApp({
      app,
      files: {
        'svc.config.json': configOf([target, { ...target, function: 'gone' }]),
        'main.mjs': `${main}\nawait new Promise((resolve) => setTimeout(resolve, 1200)); order(2);`,
      },
    });
    running.child.stderr?.destroy();
    const end = await running.ended;
    assert.deepEqual([end.stdout, end.code, end.signal], ['ran 1\n', 0, null]);
    assert.equal(end.topics.events?.length, 2);
  });

  it('no broker can be reached', async () => {
    const end = await run(
      { 'svc.config.json': configOf([target]) },
      { env: { KAFKA_BROKERS: '127.0.0.1:1' } },
    );
    assert.match(end.stderr, /^svc: warn: event kept in the backup: .*cannot reach Kafka at 127\.0\.0\.1:1/m);
  });
});

requiring('secure-kafka', 'a Kafka that lets nobody in: clear lines, and the application runs', function () {
  this.timeout(120_000);
  let kafka: SecureKafka;

  before(async () => {
    kafka = await startSecureKafka();
    await kafka.createTopic('events');
  });
  after(() => kafka.stop());

  const secured = (rest: Record<string, unknown> = {}): AppOptions['files'] => ({
    'svc.config.json': configOf([target], {
      broker: {
        'bootstrap-servers': kafka.secureBrokers,
        tls: { enabled: true, 'ca-file': kafka.caFile },
        sasl: { mechanism: 'scram-sha-512', username: kafka.user, password: kafka.password },
        ...rest,
      },
    }),
  });

  it('the right password and the right authority: published', async () => {
    const end = await run(secured());
    assert.doesNotMatch(end.stderr, /error|lost/);
    assert.equal(await kafka.count('events'), 1);
  });

  it('a wrong password', async () => {
    const end = await run(
      secured({ sasl: { mechanism: 'scram-sha-512', username: kafka.user, password: 'not-it' } }),
    );
    assert.match(end.stderr, /^svc: warn: event kept in the backup: .*password/m);
    assert.doesNotMatch(end.stderr, /not-it/);
  });

  it('a certificate that nobody trusts', async () => {
    const end = await run(secured({ tls: { enabled: true } }));
    assert.match(end.stderr, /^svc: warn: event kept in the backup: .*svc\.broker\.tls\.ca-file/m);
  });
});

describe('Node 20', function () {
  this.timeout(300_000);
  let node20: string;
  before('find Node 20', async () => {
    node20 = await findNode20();
  });

  for (const flag of ['--import', '--require']) {
    it(`${flag}: one clear line, and the application runs`, async () => {
      const end = await run(
        { 'svc.config.json': configOf([target]) },
        { node: node20, args: [flag, 'svc/register', 'main.mjs'] },
      );
      assert.match(
        end.stderr,
        /^svc: needs Node 22\.15\.0 or later, found 20\.\d+\.\d+\. The application runs without svc\n$/,
      );
      assert.deepEqual(end.topics, {});
    });
  }
});
