import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { newTopic } from '../../contract/broker.ts';
import { writeFiles } from '../../e2e/support/run-app.ts';
import { temporaryFolder } from '../../support/folders.ts';
import { startKafka } from '../../support/kafka.ts';
import { requiring } from '../../support/requires.ts';
import { runSvc } from '../../support/run-svc.ts';

interface Finding {
  readonly area: string;
  readonly state: string;
  readonly text: string;
  readonly fix?: string;
}

describe('svc doctor', function () {
  this.timeout(120_000);
  let folder: string;
  beforeEach(() => {
    folder = temporaryFolder('doctor');
    writeFiles(folder, { 'orders.mjs': 'export function createOrder() {}' });
  });

  const configure = (svc: object) =>
    writeFileSync(join(folder, 'svc.config.json'), JSON.stringify({ svc: { targets, ...svc } }));
  const targets = [{ module: './orders.mjs', function: 'createOrder' }];
  async function doctor(): Promise<{ code: number; findings: readonly Finding[] }> {
    const { code, stdout } = await runSvc(['doctor', '--json'], { cwd: folder });
    const { ok, findings } = JSON.parse(stdout) as { ok: boolean; findings: Finding[] };
    assert.equal(code, ok ? 0 : 1);
    return { code, findings };
  }
  const wrongIn = (findings: readonly Finding[]) =>
    findings.filter(({ state }) => state === 'error').map(({ area }) => area);

  it('names what to write where there is no configuration', async () => {
    const { code, stdout } = await runSvc(['doctor'], { cwd: folder });
    assert.equal(code, 1);
    assert.match(
      stdout,
      /^ERROR {4}configuration {2}no configuration: .*\n {9}fix: write one: npx --no svc init\nnext: npx --no svc init\n$/,
    );
  });

  it('is content with files in place of a broker', async () => {
    configure({ broker: { client: 'file', topic: 'orders' } });
    const { stdout, stderr, code } = await runSvc(['doctor'], { cwd: folder });
    assert.deepEqual([code, stderr], [0, 'nothing is wrong\n'], stdout);
    for (const area of ['node', 'configuration', 'targets', 'broker', 'folders'])
      assert.match(stdout, new RegExp(`^ok {7}${area} `, 'm'));
  });

  it('says of each failure how to fix it: target, option, broker, keys, tables, registry, bucket, folder', async () => {
    writeFileSync(join(folder, 'a-file'), '');
    configure({
      targets: [{ module: './orders.mjs', function: 'createOrdr' }],
      broker: {
        ...{ bootstrapServers: ['127.0.0.1:1'], topic: 'orders', dlqBackupPath: './a-file' },
        requestTimeoutMs: 2_000,
      },
      outbox: { enabled: true, datasource: { url: 'postgres://u@127.0.0.1:1/db' } },
      pii: {
        kms: {
          enabled: true,
          type: 'vault',
          vault: { address: 'http://127.0.0.1:1', token: 't', defaultKeyPath: 'k' },
        },
      },
    });
    const { code, findings } = await doctor();
    assert.equal(code, 1);
    assert.deepEqual(wrongIn(findings), ['targets', 'broker', 'tables', 'keys', 'folders']);
    for (const { state, fix = '', text } of findings) if (state !== 'ok') assert.match(fix, /\w{3}/, text);
    assert.doesNotMatch(JSON.stringify(findings), /"t"/);
  });

  it('svc check --online decides the same, and has the same list', async () => {
    writeFileSync(join(folder, 'a-file'), '');
    configure({ broker: { client: 'file', topic: 'orders', dlqBackupPath: './a-file' } });
    const { code, findings } = await doctor();
    const check = await runSvc(['check', '--online', '--json'], { cwd: folder });
    assert.deepEqual([code, check.code], [1, 1]);
    assert.deepEqual((JSON.parse(check.stdout) as { findings: unknown }).findings, findings);
    const { stdout } = await runSvc(['check', '--online'], { cwd: folder });
    assert.match(
      stdout,
      /^error: svc\.broker\.dlq-backup-path: the backup folder "\S+a-file" is not used: /m,
    );
  });

  it('an option that is wrong says what the schema says', async () => {
    configure({ broker: { client: 'file', topc: 'orders' } });
    const { findings } = await doctor();
    const [first] = findings.filter(({ state }) => state === 'error');
    assert.equal(first?.area, 'configuration');
    assert.match(`${first?.text} ${first?.fix}`, /svc\.broker\.topic/);
  });
});

describe('the last line of svc check and svc doctor', function () {
  this.timeout(180_000);
  const manifest = (scripts: object) => ({ 'package.json': JSON.stringify({ type: 'module', scripts }) });
  const config = (path: string, broker: object = { client: 'file' }) => ({
    'svc.config.json': JSON.stringify({
      svc: {
        broker: { topic: 'orders', ...broker },
        targets: [{ module: './src/orders.js', function: path }],
      },
    }),
  });
  const orders = {
    'src/orders.js': 'export function createOrder() {}',
    'src/main.js': "import './orders.js';",
    'src/other.js': '',
  };
  const start = 'node src/main.js';
  const rows: [what: string, files: object, last: string, ofDoctor?: string][] = [
    ['no configuration', orders, 'npx --no svc init'],
    [
      'all is well, with a script that starts svc',
      {
        ...orders,
        ...config('createOrder'),
        ...manifest({ start, 'start:svc': `${start} --import svc/register` }),
      },
      'npm run start:svc',
    ],
    [
      'all is well, and npm start starts svc',
      {
        ...orders,
        ...config('createOrder'),
        ...manifest({ start: 'node --import svc/register src/main.js' }),
      },
      'npm start',
    ],
    [
      'all is well, without such a script',
      { ...orders, ...config('createOrder'), ...manifest({ start }) },
      'node --import svc/register src/main.js',
    ],
    [
      'nothing is built yet',
      { ...orders, ...config('createOrder'), ...manifest({ start: 'node dist/main.js', build: 'tsc' }) },
      'npm run build && npx --no svc %s',
    ],
    [
      'a framework starts in development, Node in production',
      {
        ...orders,
        ...config('createOrder'),
        ...manifest({ start: 'nest start', 'start:prod': 'node src/main' }),
      },
      'node --import svc/register src/main',
    ],
    [
      'no such function',
      { ...orders, ...config('createOrdr'), ...manifest({ start }) },
      'correct module and function of the FAILED targets, then run npx --no svc check again',
      'do what its fix says, then run npx --no svc doctor again',
    ],
    [
      'an option that is wrong',
      { ...orders, ...config('createOrder', { client: 'file', topc: 1 }), ...manifest({ start }) },
      'fix the error lines, then run npx --no svc check again',
      'do what the first fix says, then run npx --no svc doctor again',
    ],
  ];
  for (const [what, files, last, ofDoctor = last] of rows)
    it(`${what}: ${last}`, async () => {
      const folder = temporaryFolder('next');
      writeFiles(folder, files as Record<string, string>);
      for (const [command, says] of [
        ['check', last],
        ['doctor', ofDoctor],
      ] as const) {
        const { stdout } = await runSvc([command], { cwd: folder });
        assert.equal(stdout.trimEnd().split('\n').at(-1), `next: ${says.replace('%s', command)}`, stdout);
        const json = await runSvc([command, '--json'], { cwd: folder });
        assert.doesNotMatch(json.stdout, /next: /);
      }
    });

  it('a broker that does not answer: --online points to svc doctor', async () => {
    const folder = temporaryFolder('next');
    const broker = { bootstrapServers: ['127.0.0.1:1'], requestTimeoutMs: 2_000 };
    writeFiles(folder, { ...orders, ...config('createOrder', broker), ...manifest({ start }) });
    const { stdout } = await runSvc(['check', '--online'], { cwd: folder });
    assert.match(
      stdout,
      /\nnext: fix the error lines \(npx --no svc doctor shows how\), then run npx --no svc check --online again\n$/,
    );
  });
});

requiring('kafka', 'svc doctor with Kafka', function () {
  this.timeout(60_000);
  it('tells a topic that is not there from one that is', async () => {
    const kafka = await startKafka();
    const [topic, missing] = [newTopic(), newTopic()];
    await kafka.createTopic(topic, { partitions: 2 });
    const folder = temporaryFolder('doctor');
    const broker = { bootstrapServers: kafka.brokers, topic, dlqTopic: missing };
    writeFileSync(join(folder, 'svc.config.json'), JSON.stringify({ svc: { broker } }));
    const { stdout } = await runSvc(['doctor'], { cwd: folder });
    assert.match(stdout, /^ok {7}broker {9}\S+ answers, cluster [\w-]{22}, 1 broker$/m);
    assert.match(stdout, new RegExp(`^ok {7}topics {9}${topic}: 2 partitions$`, 'm'));
    assert.match(stdout, new RegExp(`^ERROR {4}topics .*${missing}.*\\n {9}fix: create the topic`, 'm'));
    assert.match(
      stdout,
      /\nnext: create the topic, unless your broker does so with the first event, then run .*\n$/,
    );
  });
});
