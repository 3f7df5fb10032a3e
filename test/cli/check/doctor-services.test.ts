import assert from 'node:assert/strict';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer } from 'node:net';
import { join } from 'node:path';
import kafkajs from 'kafkajs';
import { ddl } from '../../../src/adapters/sql/schema.ts';
import { newTopic } from '../../contract/broker.ts';
import { temporaryFolder } from '../../support/folders.ts';
import { type SecureKafka, startSecureKafka } from '../../support/kafka.ts';
import { startMysql } from '../../support/mysql.ts';
import { startPostgres } from '../../support/postgres.ts';
import { needing, networkAddress, requiring } from '../../support/requires.ts';
import { runSvc } from '../../support/run-svc.ts';
import { type OwnRegistry, startOwnSchemaRegistry } from '../../support/schema-registry.ts';

interface Finding {
  readonly area: string;
  readonly state: string;
  readonly text: string;
  readonly fix?: string;
}

const folder = temporaryFolder('doctor-services');

/** What `svc doctor` finds; the list of `svc check --online` is the same, and so is what each of them decides. */
async function doctor(
  svc: object,
): Promise<{ readonly code: number; readonly findings: readonly Finding[] }> {
  const cwd = mkdtempSync(join(folder, 'app-'));
  const broker = { client: 'memory', topic: 'orders' };
  const targets = [{ module: './orders.mjs', function: 'createOrder', eventType: 'ORDER_CREATED' }];
  writeFileSync(join(cwd, 'orders.mjs'), 'export function createOrder() {}\n');
  writeFileSync(join(cwd, 'svc.config.json'), JSON.stringify({ svc: { broker, targets, ...svc } }));
  const [found, checked] = [
    await runSvc(['doctor', '--json'], { cwd }),
    await runSvc(['check', '--online', '--json'], { cwd }),
  ];
  const { findings } = JSON.parse(found.stdout) as { findings: Finding[] };
  assert.deepEqual((JSON.parse(checked.stdout) as { findings: Finding[] }).findings, findings);
  assert.equal(checked.code, found.code);
  return { code: found.code, findings };
}
const of = (findings: readonly Finding[], wanted: string): readonly Finding[] =>
  findings.filter(({ area }) => area === wanted);
/** That passwords stand in these files is warned of, and no matter here. */
const wrong = (findings: readonly Finding[]): readonly Finding[] =>
  findings.filter(({ state, text }) => state !== 'ok' && !text.includes('is a secret'));

requiring('secure-kafka', 'svc doctor and rights on topics', function () {
  this.timeout(120_000);
  let kafka: SecureKafka;
  before(async () => {
    kafka = await startSecureKafka();
    for (const topic of ['open', 'read-only']) await kafka.createTopic(topic);
    const admin = new kafkajs.Kafka({ brokers: kafka.brokers, logLevel: kafkajs.logLevel.NOTHING }).admin();
    await admin.connect();
    const { TOPIC, GROUP } = kafkajs.AclResourceTypes;
    const right = (resourceType: number, resourceName: string, operation: number) => ({
      ...{ resourceType, resourceName, operation, principal: `User:${kafka.user}`, host: '*' },
      resourcePatternType: kafkajs.ResourcePatternTypes.LITERAL,
      permissionType: kafkajs.AclPermissionTypes.ALLOW,
    });
    await admin.createAcls({
      acl: [
        right(TOPIC, 'read-only', kafkajs.AclOperationTypes.READ),
        right(GROUP, 'nothing-but-seen', kafkajs.AclOperationTypes.DESCRIBE),
      ],
    });
    await admin.disconnect();
  });
  after(() => kafka?.stop());

  it('a topic that may not be written, and a group that may not be used: which right to give, to whom, on what', async () => {
    const { code, findings } = await doctor({
      broker: {
        ...{ topic: 'open', dlqTopic: 'read-only', bootstrapServers: kafka.secureBrokers },
        tls: { enabled: true, caFile: kafka.caFile },
        sasl: { mechanism: 'scram-sha-512', username: kafka.user, password: kafka.password },
      },
      idGenerator: { group: 'nothing-but-seen' },
    });
    assert.equal(code, 1);
    assert.deepEqual(
      wrong(findings).map(({ area }) => area),
      ['rights', 'rights'],
    );
    const [topic, group] = wrong(findings);
    assert.match(
      topic?.text ?? '',
      /the user "svc" may not write to topic "read-only": grant it Write and Describe/,
    );
    assert.match(group?.text ?? '', /may not use the group "nothing-but-seen": grant it Read/);
    for (const each of [topic, group])
      assert.equal(
        each?.fix,
        'allow the user of svc.broker.sasl to describe and write its topics, and to use its group',
      );
    assert.deepEqual(
      of(findings, 'rights')
        .filter(({ state }) => state === 'ok')
        .map(({ text }) => text),
      ['open: svc may write'],
    );
  });
});

const table = 'svc_outbox_events';
for (const [need, dialect, start, drop] of [
  ['postgres', 'postgres', startPostgres, `ALTER TABLE ${table} DROP CONSTRAINT ${table}_valid`],
  ['mysql', 'mysql', startMysql, `ALTER TABLE ${table} DROP CHECK ${table}_valid`],
] as const)
  requiring(need, `svc doctor and what guards the rows of the outbox: ${dialect}`, function () {
    this.timeout(120_000);

    it('names the statement that a table lacks, which mends it', async () => {
      const server = await start();
      const url = await server.freshDatabase();
      const outbox = { outbox: { enabled: true, datasource: { url } } };
      for (const sql of ddl(dialect, table, {}).split(/;\s*$/m))
        if (/\w/.test(sql.replace(/^--.*$/gm, ''))) await server.query(url, sql);
      assert.deepEqual(of((await doctor(outbox)).findings, 'triggers'), [
        { area: 'triggers', state: 'ok', text: `${table} is guarded` },
      ]);
      await server.query(url, drop);
      const { code, findings } = await doctor(outbox);
      const [found] = of(findings, 'triggers');
      // Rows are sent: it is no error.
      assert.deepEqual([code, found?.state], [0, 'warning'], JSON.stringify(findings));
      assert.equal(found?.text, `${table} accepts rows that no relay finds, which svc never writes`);
      const [, statement] =
        /^run the statement at a quiet time, as the owner of the table: (ALTER TABLE .*)$/.exec(
          found?.fix ?? '',
        ) ?? assert.fail(found?.fix);
      await server.query(url, statement as string);
      assert.deepEqual(wrong((await doctor(outbox)).findings), []);
    });

    it('says where rows and passwords go to another machine unencrypted', async function () {
      await needing('network', this);
      const address = networkAddress();
      const server = await start();
      const own = new URL(await server.freshDatabase());
      for (const sql of ddl(dialect, table, {}).split(/;\s*$/m))
        if (/\w/.test(sql.replace(/^--.*$/gm, ''))) await server.query(own.href, sql);
      const proxy = createServer((socket) => {
        const onward = connect(Number(own.port), own.hostname);
        for (const each of [socket, onward]) each.on('error', () => {});
        socket.pipe(onward).pipe(socket);
      });
      await new Promise<void>((resolve) => proxy.listen(0, address, resolve));
      const url = new URL(own);
      url.host = `${address}:${(proxy.address() as AddressInfo).port}`;
      const found = async (href: string) => {
        const { code, findings } = await doctor({ outbox: { enabled: true, datasource: { url: href } } });
        assert.equal(code, 0, JSON.stringify(findings));
        return of(findings, 'tables').filter(({ state }) => state === 'warning');
      };
      try {
        const [warned, ...others] = await found(url.href);
        assert.deepEqual(others, []);
        assert.match(warned?.text ?? '', new RegExp(`database at ${address} is not encrypted`));
        assert.match(warned?.fix ?? '', dialect === 'mysql' ? /\?ssl=/ : /\?sslmode=verify-full/);
        assert.deepEqual(await found(own.href), []);
        // The other server has no certificate.
        url.searchParams.set('ssl', '{"rejectUnauthorized":false}');
        if (dialect === 'mysql') assert.deepEqual(await found(url.href), []);
      } finally {
        proxy.close();
      }
    });
  });

requiring('schema-registry', 'svc doctor and the schema registry', function () {
  this.timeout(120_000);
  let registry: OwnRegistry;
  before(async () => {
    registry = await startOwnSchemaRegistry();
  });
  after(() => registry?.stop());
  const serde = (more: object = {}) => ({
    serde: { type: 'AVRO', schemaRegistryUrl: registry.url, autoRegister: false, ...more },
  });
  const fix = 'register the schema, or correct svc.serde.schema-registry-url';

  async function found(svc: object, topic = newTopic()): Promise<Finding> {
    const { code, findings } = await doctor({ broker: { client: 'memory', topic }, ...svc });
    const [first, ...others] = of(findings, 'registry');
    assert.deepEqual([code, others], [first?.state === 'error' ? 1 : 0, []], JSON.stringify(findings));
    return first as Finding;
  }

  it('that is there: a schema that nobody has registered, and one that svc registers', async () => {
    const missing = await found(serde());
    assert.deepEqual([missing.state, missing.fix], ['error', fix]);
    assert.match(missing.text, /ORDER_CREATED|subject/);
    const registers = await found(serde({ autoRegister: true }));
    assert.equal(registers.state, 'ok', registers.text);
  });

  it('one whose subject holds another schema', async () => {
    const topic = newTopic();
    const subject = `/${topic}-value`;
    const schema = JSON.stringify({
      type: 'record',
      name: 'ORDER_CREATED',
      namespace: 'svc.events',
      fields: [],
    });
    await registry.call('POST', `/subjects${subject}/versions`, { schema });
    await registry.call('PUT', `/config${subject}`, { compatibility: 'FULL' });
    const other = await found(serde({ autoRegister: true, subjectNameStrategy: 'topic' }), topic);
    assert.deepEqual([other.state, other.fix], ['error', fix], other.text);
    assert.match(other.text, /not compatible with subject \S+-value/);
  });

  it('that is away, hangs, or is another server', async () => {
    const away = await found(serde({ schemaRegistryUrl: 'http://127.0.0.1:1' }));
    assert.deepEqual([away.state, away.fix], ['error', fix]);
    assert.match(away.text, /127\.0\.0\.1:1/);
    const elsewhere = await found(serde({ schemaRegistryUrl: `${registry.url}/nothing-here` }));
    assert.deepEqual([elsewhere.state, elsewhere.fix], ['error', fix]);
    await registry.pause();
    try {
      const hanging = await found(serde());
      assert.deepEqual([hanging.state, hanging.fix], ['error', fix]);
    } finally {
      registry.resume();
    }
  });
});
