import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join, resolve } from 'node:path';
import kafkajs from 'kafkajs';
import { bucketsFolder, type S3Server, startS3Server } from '../../scripts/services/s3.ts';
import { debezium } from '../../src/adapters/debezium/connector.ts';
import { ddl } from '../../src/adapters/sql/schema.ts';
import { newTopic } from '../contract/broker.ts';
import { hostEnvironment } from '../e2e/support/run-app.ts';
import { keepEnvironment } from '../support/environment.ts';
import { temporaryFolder } from '../support/folders.ts';
import { type SecureKafka, startKafka, startSecureKafka, type TestKafka } from '../support/kafka.ts';
import { startPostgres } from '../support/postgres.ts';
import { requiring } from '../support/requires.ts';
import { type CommandEnd, runSvc } from '../support/run-svc.ts';
import { type SilentServer, startSilentServer } from '../support/silent-server.ts';

const folder = temporaryFolder('check-online');

interface App {
  readonly broker: object;
  /** Of a second target. */
  readonly topic?: string;
  readonly svc?: object;
}

function prepare({ broker, topic, svc }: App): string {
  const app = mkdtempSync(join(folder, 'app-'));
  const targets = [
    { module: './orders.mjs', function: 'createOrder' },
    ...(topic === undefined ? [] : [{ module: './orders.mjs', function: 'cancelOrder', topic }]),
  ];
  writeFileSync(join(app, 'svc.config.json'), JSON.stringify({ svc: { ...svc, broker, targets } }));
  writeFileSync(
    join(app, 'orders.mjs'),
    'export function createOrder() {}\nexport function cancelOrder() {}\n',
  );
  return app;
}

/** What stands below the report of the targets, without the last line, which says what to do next. */
async function check(app: App, ...args: string[]): Promise<CommandEnd & { readonly online: string }> {
  const end = await runSvc(['check', '--online', ...args], { cwd: prepare(app) });
  const below = end.stdout.slice(end.stdout.search(/^(error: )?broker: /m));
  const online = below.replace(/^next: .+\n$/m, '');
  return { ...end, online };
}

requiring('kafka', 'svc check --online', function () {
  this.timeout(60_000);
  let kafka: TestKafka;
  before(async () => {
    kafka = await startKafka();
  });

  for (const client of ['kafkajs', 'platformatic']) {
    it(`0, with ${client}: the topics are there and may be written`, async () => {
      const [topic, ofTarget, dlqTopic] = [newTopic(), newTopic(), newTopic()];
      await kafka.createTopic(topic, { partitions: 3 });
      for (const each of [ofTarget, dlqTopic]) await kafka.createTopic(each);
      const broker = { client, bootstrapServers: kafka.brokers, topic, dlqTopic };
      const end = await check({ broker, topic: ofTarget });
      assert.deepEqual([end.code, end.stderr], [0, ''], end.stdout);
      assert.match(end.stdout, /^capture: 2 of 2 targets found$/m);
      const [first, ...rest] = end.online.trimEnd().split('\n');
      assert.match(first ?? '', /^broker: \S+ answers, cluster [\w-]{22}, 1 broker$/);
      assert.deepEqual(rest, [
        `  topic ${topic}: 3 partitions, svc may write`,
        `  topic ${ofTarget}: 1 partition, svc may write`,
        `  topic ${dlqTopic}: 1 partition, svc may write`,
        '  group svc-workers for worker ids: svc may use it',
      ]);
      assert.equal(await kafka.count(topic), 0);
    });
  }

  it('1: a topic that is not there, which stays so; --json has it all', async () => {
    const [topic, missing] = [newTopic(), newTopic()];
    await kafka.createTopic(topic);
    const app = { broker: { bootstrapServers: kafka.brokers, topic }, topic: missing };
    for (const time of ['first', 'second']) {
      const end = await check(app);
      assert.equal(end.code, 1, time);
      assert.match(end.online, new RegExp(`^ {2}error: topic "${missing}" does not exist: create it`, 'm'));
    }
    const { code, stdout } = await check({ ...app, svc: { idGenerator: { lease: 'host' } } }, '--json');
    const { ok, online } = JSON.parse(stdout) as { ok: boolean; online: Record<string, unknown> };
    assert.deepEqual([code, ok, online.ok], [1, false, false]);
    assert.deepEqual(
      [online.client, online.asked, online.problem, online.group],
      ['kafkajs', kafka.brokers, undefined, undefined],
    );
    assert.deepEqual((online.topics as object[])[0], { topic, partitions: 1, mayWrite: true });
    assert.deepEqual(
      { ...(online.topics as object[])[1], problem: '' },
      { topic: missing, partitions: null, mayWrite: null, problem: '' },
    );
  });
});

describe('svc check --online without a broker that answers', function () {
  this.timeout(60_000);
  let silent: SilentServer;
  before(async () => {
    silent = await startSilentServer();
  });
  after(() => silent.close());
  const brokerAt = (address: string, more = {}): object => ({
    ...{ bootstrapServers: [address], topic: 'orders', requestTimeoutMs: 1000 },
    ...more,
  });

  for (const client of ['kafkajs', 'platformatic']) {
    it(`1, with ${client}: one line for one that is away, and for one that hangs`, async () => {
      const away = await check({ broker: brokerAt('127.0.0.1:1', { client }) });
      assert.deepEqual([away.code, away.stderr], [1, '']);
      assert.match(away.stdout, /^capture: 1 of 1 targets found$/m);
      assert.match(
        away.online,
        /^error: broker: cannot reach Kafka at 127\.0\.0\.1:1 \(ECONNREFUSED\): [^\n]+\n$/,
      );
      const hanging = await check({ broker: brokerAt(silent.address, { client }) });
      assert.deepEqual([hanging.code, hanging.stderr], [1, '']);
      assert.match(hanging.online, /^error: broker: [^\n]*127\.0\.0\.1:\d+[^\n]* within 1000 ms[^\n]*\n$/);
    });
  }

  it('ends at once when it is interrupted', async () => {
    const cwd = prepare({ broker: brokerAt(silent.address, { requestTimeoutMs: 60_000 }) });
    const main = resolve(import.meta.dirname, '../../src/cli/main.ts');
    const fresh = await startSilentServer();
    const env = { ...hostEnvironment(), SVC_BROKER_BOOTSTRAP_SERVERS: fresh.address };
    const child = spawn(process.execPath, [main, 'check', '--online'], { cwd, env, stdio: 'ignore' });
    await fresh.spokenTo;
    const at = performance.now();
    child.kill('SIGINT');
    assert.deepEqual(await once(child, 'exit'), [null, 'SIGINT']);
    assert.ok(performance.now() - at < 2000);
    fresh.close();
  });

  it('1: asks nobody where the configuration of the broker is wrong', async () => {
    const end = await check({ broker: brokerAt(silent.address, { acks: 'some' }) });
    assert.equal(end.code, 1);
    assert.match(end.online, /^error: broker: not asked: svc\.broker\.acks/);
  });

  it('says that there is no broker behind files and memory, and whether the files can be written', async () => {
    const files = { client: 'file', topic: 'orders' };
    const good = await check({ broker: files });
    assert.equal(good.code, 0, good.stdout);
    assert.match(
      good.online,
      /^broker: nothing to check; the topic files in \S+svc-topics can be written\n$/,
    );
    const path = join(folder, 'a-file', 'topics');
    writeFileSync(join(folder, 'a-file'), '');
    const bad = await check({ broker: { ...files, file: { path } } });
    assert.equal(bad.code, 1);
    assert.match(
      bad.online,
      /^error: broker: "\S+" cannot be created, because a part of it is not a directory \(ENOTDIR\)/,
    );
    const made = join(folder, 'made');
    mkdirSync(made);
    await check({ broker: { ...files, file: { path: join(made, 'a/b') } } });
    assert.deepEqual(readdirSync(made), []);
    const memory = await check({ broker: { client: 'memory', topic: 'orders' } });
    assert.equal(memory.code, 0);
    assert.match(memory.online, /^broker: nothing to check, events stay in memory/);
  });

  it('is not asked without the option', async () => {
    const end = await runSvc(['check'], { cwd: prepare({ broker: brokerAt('127.0.0.1:1') }) });
    assert.equal(end.code, 0, end.stdout);
    assert.doesNotMatch(end.stdout, /broker/);
  });
});

requiring('secure-kafka', 'svc check --online where rights are given', function () {
  this.timeout(90_000);
  let kafka: SecureKafka;
  before(async () => {
    kafka = await startSecureKafka();
    for (const topic of ['open', 'closed', 'seen']) await kafka.createTopic(topic);
    const { TOPIC, GROUP } = kafkajs.AclResourceTypes;
    const { ALL, DESCRIBE } = kafkajs.AclOperationTypes;
    const rights = [
      { resourceType: TOPIC, resourceName: 'closed', principal: 'User:somebody', operation: ALL },
      { resourceType: TOPIC, resourceName: 'hidden', principal: 'User:somebody', operation: ALL },
      { resourceType: TOPIC, resourceName: 'seen', principal: `User:${kafka.user}`, operation: DESCRIBE },
      { resourceType: GROUP, resourceName: 'closed', principal: 'User:somebody', operation: ALL },
      { resourceType: GROUP, resourceName: 'seen', principal: `User:${kafka.user}`, operation: DESCRIBE },
    ].map((each) => ({
      ...{ ...each, host: '*', resourcePatternType: kafkajs.ResourcePatternTypes.LITERAL },
      permissionType: kafkajs.AclPermissionTypes.ALLOW,
    }));
    const admin = new kafkajs.Kafka({ brokers: kafka.brokers, logLevel: kafkajs.logLevel.NOTHING }).admin();
    await admin.connect();
    await admin.createAcls({ acl: rights });
    await admin.disconnect();
  });
  after(() => kafka?.stop());

  for (const client of ['kafkajs', 'platformatic']) {
    const app = (topic: string, group: string, password = kafka.password): App => ({
      broker: {
        ...{ client, topic, bootstrapServers: kafka.secureBrokers },
        tls: { enabled: true, caFile: kafka.caFile },
        sasl: { mechanism: 'scram-sha-512', username: kafka.user, password },
      },
      svc: { idGenerator: { group } },
    });

    it(`0, with ${client}: what is open`, async () => {
      const end = await check(app('open', 'open'));
      assert.deepEqual([end.code, end.stderr], [0, ''], end.stdout);
      assert.match(end.online, /^ {2}topic open: 1 partition, svc may write$/m);
      assert.match(end.online, /^ {2}group open for worker ids: svc may use it$/m);
    });

    it(`1, with ${client}: no right to write, and none on the group`, async () => {
      for (const name of ['closed', 'seen']) {
        const end = await check({ ...app('open', name), topic: name });
        assert.deepEqual([end.code, end.stderr], [1, ''], end.stdout);
        assert.deepEqual(end.online.trimEnd().split('\n').slice(1), [
          '  topic open: 1 partition, svc may write',
          `  error: the user "svc" may not write to topic "${name}": grant it Write and Describe`,
          `  error: no worker id from Kafka: the user "svc" may not use the group "${name}": grant it Read on this group, or set svc.id-generator.lease to host; until then event ids use a worker id of this host, which other hosts may also use`,
        ]);
      }
      assert.equal(await kafka.count('closed'), 0);
    });

    it(`1, with ${client}: a topic that this user may not see, there or not`, async () => {
      const { code, online } = await check(app('hidden', 'open'));
      assert.equal(code, 1);
      assert.match(online, /^ {2}error: the user "svc" may not write to topic "hidden"/m);
    });

    it(`1, with ${client}: a password that Kafka refuses, and no word of it`, async () => {
      const end = await check(app('open', 'open', 'sesame'));
      assert.deepEqual([end.code, end.stderr], [1, '']);
      assert.match(end.online, /^error: broker: Kafka refused the user "svc" \(SCRAM-SHA-512\): [^\n]+\n$/);
      assert.doesNotMatch(end.stdout, /sesame/);
    });
  }
});

requiring('own-s3', 'svc check --online and the bucket of the backup', function () {
  this.timeout(60_000);
  let server: S3Server;
  const restoreEnvironment = keepEnvironment();
  before(async () => {
    server = await startS3Server();
    assert.ok(server.local);
    mkdirSync(join(bucketsFolder(server.local), 'orders-backup'));
    process.env.AWS_ACCESS_KEY_ID = server.accessKey;
    process.env.AWS_SECRET_ACCESS_KEY = server.secretKey;
  });
  after(async () => {
    restoreEnvironment();
    await server?.local?.stop();
  });
  const appWith = (s3: object): App => ({
    broker: {
      ...{ client: 'memory', topic: 'events' },
      backup: { s3Enabled: true, s3Bucket: 'orders-backup', s3Endpoint: server.endpoint, ...s3 },
    },
  });

  it('0: the bucket takes a probe, of which nothing stays', async () => {
    const end = await check(appWith({}));
    assert.deepEqual([end.code, end.stderr], [0, ''], end.stdout);
    assert.match(end.online, /^backup: bucket orders-backup takes events$/m);
    const left = readdirSync(join(bucketsFolder(server.local ?? assert.fail()), 'orders-backup'), {
      recursive: true,
    });
    assert.deepEqual(
      left.filter((name) => !String(name).startsWith('.') && /svc-check./.test(String(name))),
      [],
    );
  });

  it('1: there is no such bucket', async () => {
    const end = await check(appWith({ s3Bucket: 'nothing-here' }));
    assert.equal(end.code, 1);
    assert.match(end.online, /^error: backup: S3 bucket "nothing-here" at \S+: the bucket does not exist/m);
  });

  it('1: a web server with a page for everything', async () => {
    const web = createServer((_, response) => void response.end('<title>Welcome</title>'));
    web.listen(0, '127.0.0.1');
    await once(web, 'listening');
    const { port } = web.address() as AddressInfo;
    const end = await check(appWith({ s3Endpoint: `http://127.0.0.1:${port}` }), '--json');
    assert.equal(end.code, 1);
    const { backup } = JSON.parse(end.stdout).online;
    assert.match(backup.problem, /the server there answered 200, but shows no object/);
    web.closeAllConnections();
    web.close();
  });
});

requiring('postgres', 'svc check --online, with an outbox', function () {
  this.timeout(60_000);
  const table = 'svc_outbox_events';
  const memory = { client: 'memory', topic: 'orders' };
  const outbox = (url: string, more = {}) => ({ outbox: { enabled: true, datasource: { url }, ...more } });

  it('0 with the tables, 1 without them, without rights, and with a trigger that erases rows', async () => {
    const server = await startPostgres();
    const url = await server.freshDatabase();
    const asked = (address = url, more = {}) => check({ broker: memory, svc: outbox(address, more) });
    const none = await asked();
    assert.equal(none.code, 1, none.stdout);
    assert.match(none.online, new RegExp(`^error: .* has no table ${table} of the outbox`, 'm'));
    const later = await asked(url, { initializeSchema: 'always' });
    assert.equal(later.code, 0, later.stdout);
    assert.match(later.online, new RegExp(`^warning: no table ${table} yet: the process makes it`, 'm'));
    await server.query(url, ddl('postgres', table, {}));
    const well = await asked();
    assert.deepEqual([well.code, well.stderr], [0, ''], well.stdout);
    assert.match(
      well.online,
      new RegExp(`^outbox: the tables of ${table} fit this version of svc, .*; 0 events pending$`, 'm'),
    );
    const user = `svc_check_${process.pid}`;
    await server.query(url, `CREATE ROLE ${user} LOGIN PASSWORD 'secret'`);
    try {
      const refused = await asked(Object.assign(new URL(url), { username: user, password: 'secret' }).href);
      assert.equal(refused.code, 1, refused.stdout);
      assert.match(refused.online, /^error: .*grant SELECT, INSERT, UPDATE and DELETE/m);
    } finally {
      await server.query(url, `DROP ROLE ${user}`);
    }
    const printed = {
      dialect: 'postgres',
      table,
      headers: [],
      publication: 'svc_outbox',
      erases: true,
    } as const;
    await server.query(url, debezium.sql(printed));
    const erasing = await asked();
    assert.equal(erasing.code, 1, erasing.stdout);
    assert.match(erasing.online, /^error: a trigger of the table svc_outbox_events deletes each row/m);
    const json = await check({ broker: memory, svc: outbox(url) }, '--json');
    const { ok, online } = JSON.parse(json.stdout) as { ok: boolean; online: { outbox: { code: string } } };
    assert.deepEqual([json.code, ok, online.outbox.code], [1, false, 'SVC_OUTBOX_CONTRADICTION']);
  });

  it('0 with SQLite, which gets its tables at the start; no file is made', async () => {
    const end = await check({ broker: memory, svc: outbox('sqlite:./orders.db') });
    assert.deepEqual([end.code, end.stderr], [0, ''], end.stdout);
    assert.match(end.online, new RegExp(`^warning: no table ${table} yet`, 'm'));
  });
});
