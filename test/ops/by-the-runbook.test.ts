import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import kafkajs from 'kafkajs';
import { plainApp } from '../e2e/support/apps.ts';
import { type RunningApp, startApp } from '../e2e/support/start-app.ts';
import { configOf } from '../e2e/support/topic-config.ts';
import { type SecureKafka, startSecureKafka } from '../support/kafka.ts';
import { startPrometheus, type TestPrometheus } from '../support/prometheus.ts';
import { requiring } from '../support/requires.ts';
import { type CommandEnd, runProgram } from '../support/run-svc.ts';
import { until } from '../support/until.ts';
import { alerts } from './support/rule-files.ts';

const runbook = readFileSync(resolve(import.meta.dirname, '../../docs/runbook.md'), 'utf8');
const token = 'a-token-of-sixteen';
/** What no record of the applications here is smaller than, and the usual size. */
const [small, usual] = [100, 1_048_588];
const count = 5;
/** Dead letters are counted once in a minute. */
const countedMs = 75_000;

/** What the entry of an alert tells whoever is on call to type, without its comments. */
function commandsOf(alert: string): readonly string[] {
  const entry = runbook.split(/^### /m).find((part) => part.startsWith(`${alert}\n`)) ?? assert.fail(alert);
  return [...entry.matchAll(/^```sh\n(.*?)^```$/gms)].flatMap(([, block]) =>
    (block as string)
      .split('\n')
      .map((line) => line.replace(/\s+# .*$/, ''))
      .filter((line) => line !== ''),
  );
}

requiring(['prometheus', 'secure-kafka'], 'from an alert to the repair by the runbook alone', function () {
  this.timeout(300_000);
  let kafka: SecureKafka;
  let app: RunningApp;
  let prometheus: TestPrometheus;
  let address: string;

  const main = `
    async function order(id) { return { id }; }
    async function pay(id) { return { id }; }
    setInterval(() => {}, 1000);
    process.on('SIGUSR2', () => setInterval(() => order(0).catch(() => {}), 100));
    for (let id = 1; id <= ${count}; id++) { order(id).catch(() => {}); pay(id).catch(() => {}); }`;
  const targets = [
    { module: './main.mjs', function: 'order', eventType: 'ORDERED', key: '#id' },
    {
      ...{ module: './main.mjs', function: 'pay', eventType: 'PAID', topic: 'payments' },
      outbox: { aggregateType: 'Payment', aggregateId: '#id' },
    },
  ];
  const outbox = {
    ...{ enabled: true, 'max-retries': 1, 'on-no-transaction': 'autocommit' },
    datasource: { url: 'sqlite:./outbox.db' },
  };

  before(async () => {
    kafka = await startSecureKafka();
    await kafka.createTopic('dead');
    await kafka.createTopic('events');
    await allow('events', 'somebody');
    await kafka.createTopic('huge', { config: { 'max.message.bytes': `${small}` } });
    await kafka.createTopic('payments', { config: { 'max.message.bytes': `${small}` } });
  });
  after(async () => {
    await prometheus?.stop();
    await app?.kill('SIGKILL');
    await kafka?.stop();
  });

  async function begin(svc: object): Promise<void> {
    await prometheus?.stop();
    await app?.kill('SIGKILL');
    app = await startApp({
      ...{ app: plainApp(), timeoutMs: 280_000 },
      env: { KAFKA_BROKERS: kafka.secureBrokers.join(), MANAGEMENT_SERVER_TOKEN: token },
      files: { 'svc.config.json': svc, 'main.mjs': main },
    });
    address = (await app.waitFor(/management on http:\/\/(\S+)\/metrics/))[1] as string;
    prometheus = await startPrometheus(address);
  }

  /** As it stands in the runbook, where it says to type it. */
  function type(command: string): Promise<CommandEnd> {
    const [line, env] = [command.replaceAll('localhost:17820', address), { TOKEN: token }];
    const brokers = { KAFKA_BROKERS: kafka.secureBrokers.join() };
    return runProgram('sh', ['-c', line], { cwd: app.folder, env: { ...env, ...brokers } });
  }

  const isMet = async (alert: string): Promise<boolean> => {
    const { expr } = alerts.find((each) => each.alert === alert) ?? assert.fail(alert);
    return (await prometheus.query(expr)).length > 0;
  };
  const metrics = async (): Promise<string> =>
    (await (await fetch(`http://${address}/metrics`)).text()).replace(/^#.*\n/gm, '');
  const raised = (alert: string): Promise<void> =>
    until(() => isMet(alert), { limitMs: countedMs, say: metrics });
  const ended = (alert: string): Promise<void> =>
    until(async () => !(await isMet(alert)), { limitMs: countedMs });

  const access = () => ({
    tls: { enabled: true, 'ca-file': kafka.caFile },
    sasl: { mechanism: 'scram-sha-512', username: kafka.user, password: kafka.password },
  });

  /** "Repair the cause": not svc's. */
  async function repair(work: (admin: kafkajs.Admin) => Promise<unknown>): Promise<void> {
    const admin = new kafkajs.Kafka({ brokers: kafka.brokers, logLevel: 0 }).admin();
    await admin.connect();
    await work(admin);
    await admin.disconnect();
  }
  const allow = (topic: string, user: string): Promise<void> =>
    repair((admin) =>
      admin.createAcls({
        acl: [
          {
            ...{ resourceType: kafkajs.AclResourceTypes.TOPIC, resourceName: topic, host: '*' },
            ...{ principal: `User:${user}`, operation: kafkajs.AclOperationTypes.ALL },
            resourcePatternType: kafkajs.ResourcePatternTypes.LITERAL,
            permissionType: kafkajs.AclPermissionTypes.ALLOW,
          },
        ],
      }),
    );
  const enlarge = (topic: string): Promise<void> =>
    repair((admin) =>
      admin.alterConfigs({
        validateOnly: false,
        resources: [
          {
            ...{ type: kafkajs.ConfigResourceTypes.TOPIC, name: topic },
            configEntries: [{ name: 'max.message.bytes', value: `${usual}` }],
          },
        ],
      }),
    );
  const keysOf = async (topic: string): Promise<string[]> =>
    (await kafka.read(topic, { count })).map(({ key }) => key as string).sort();
  const all = Array.from({ length: count }, (_, at) => `${at + 1}`);

  it('SvcDeadLettersWaiting', async () => {
    await begin(
      configOf(targets, {
        broker: { ...access(), 'dlq-topic': 'dead', 'delivery-timeout-ms': 12_000 },
        outbox,
      }),
    );
    await raised('SvcDeadLettersWaiting');
    await until(async () => (await kafka.count('dead')) === count, { limitMs: 20_000, say: metrics });
    const [health = '', list = '', dry = '', recover = '', ...others] = commandsOf('SvcDeadLettersWaiting');
    assert.deepEqual(others, []);
    const listed = await type(list);
    assert.equal(listed.code, 0, listed.stderr);
    assert.match(
      listed.stdout,
      new RegExp(`^(.* ORDERED +events +(TimeoutException|TOPIC_AUTHORIZATION_FAILED) .*\n){${count}}`, 'm'),
    );
    assert.match((await type(health)).stdout, /may not write to topic \\"events\\"/);
    await allow('events', kafka.user);
    const looked = await type(dry);
    assert.equal(looked.code, 0, looked.stderr);
    assert.equal(await kafka.count('events'), 0);
    const recovered = await type(recover);
    assert.equal(recovered.code, 0, recovered.stderr);
    await ended('SvcDeadLettersWaiting');
    assert.deepEqual(await keysOf('events'), all);
  });

  it('SvcOutboxRowsFailed', async () => {
    await raised('SvcOutboxRowsFailed');
    const [list = '', dry = '', retry = '', discard = ''] = commandsOf('SvcOutboxRowsFailed');
    const listed = await type(list);
    assert.equal(listed.code, 0, listed.stderr);
    assert.match(listed.stdout, /too.?large|MESSAGE_TOO_LARGE/i);
    await enlarge('payments');
    const looked = await type(dry);
    assert.equal(looked.code, 0, looked.stderr);
    assert.ok(await isMet('SvcOutboxRowsFailed'));
    const retried = await type(retry);
    assert.equal(retried.code, 0, retried.stderr);
    await ended('SvcOutboxRowsFailed');
    assert.deepEqual(await keysOf('payments'), all);
    const left = await type(discard);
    assert.equal(left.code, 0, left.stderr);
  });

  it('SvcBackupTooLarge', async () => {
    await begin(configOf(targets.slice(0, 1), { broker: { ...access(), topic: 'huge' } }));
    await raised('SvcBackupTooLarge');
    const [list = '', restore = '', ...others] = commandsOf('SvcBackupTooLarge');
    assert.deepEqual(others, []);
    const listed = await type(list);
    assert.equal(listed.code, 0, listed.stderr);
    await enlarge('huge');
    const restored = await type(restore);
    assert.equal(restored.code, 0, restored.stderr);
    await ended('SvcBackupTooLarge');
    assert.deepEqual(await keysOf('huge'), all);
  });

  it('SvcCircuitOpen', async () => {
    await begin(configOf(targets, { broker: { ...access(), topic: 'huge' }, outbox }));
    await until(async () => (await kafka.count('huge')) === 2 * count, { limitMs: 20_000 });
    await kafka.kill();
    app.child.kill('SIGUSR2');
    await raised('SvcCircuitOpen');
    const [health = '', check = '', reset = '', ...others] = commandsOf('SvcCircuitOpen');
    assert.deepEqual(others, []);
    assert.match((await type(health)).stdout, /ECONNREFUSED|cannot reach/);
    assert.equal((await type(check)).code, 1);
    await kafka.restart();
    const done = await type(reset);
    assert.match(done.stdout, /"after":"CLOSED"/, done.stderr);
    await ended('SvcCircuitOpen');
    assert.equal((await type(check)).code, 0);
  });
});
