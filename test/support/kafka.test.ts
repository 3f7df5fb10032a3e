import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import kafkajs, { type KafkaConfig, type ProducerRecord, type SASLOptions } from 'kafkajs';
import { describeCluster } from '../../scripts/services/describe-cluster.ts';
import { guardFolder } from '../../scripts/services/guard.ts';
import type { Instance } from '../../scripts/services/instances.ts';
import { ensureKafkaCertificates } from '../../scripts/services/kafka-certificates.ts';
import { prepareKafkaNode } from '../../scripts/services/kafka-data.ts';
import { ensureKafkaJars } from '../../scripts/services/kafka-jars.ts';
import { createKafkaNode } from '../../scripts/services/kafka-node.ts';
import { isAlive } from '../../scripts/services/processes.ts';
import { PortTaken } from '../../scripts/services/start-instance.ts';
import { temporaryFolder } from './folders.ts';
import { type SecureKafka, startKafka, startSecureKafka } from './kafka.ts';
import { requiring } from './requires.ts';

async function send(config: KafkaConfig, record: ProducerRecord): Promise<void> {
  const options = { logLevel: kafkajs.logLevel.NOTHING, retry: { retries: 0 }, ...config };
  const createPartitioner = kafkajs.Partitioners.DefaultPartitioner;
  const producer = new kafkajs.Kafka(options).producer({ createPartitioner });
  try {
    await producer.connect();
    await producer.send(record);
  } finally {
    await producer.disconnect();
  }
}

requiring('kafka', 'startKafka', () => {
  it('reads back what was sent, as it was sent', async function () {
    this.timeout(30_000);
    const kafka = await startKafka();
    const topic = `read-back-${process.pid}`;
    await kafka.createTopic(topic, { partitions: 2 });
    assert.deepEqual(await kafka.read(topic), []);
    await send(kafka, {
      topic,
      messages: [
        {
          partition: 0,
          timestamp: '1700000000000',
          key: 'k,1',
          headers: { a: '1,b:2', b: '' },
          value: '{"x":\n"\u00e9\\t"}',
        },
        { partition: 0, key: null, value: null },
        { partition: 1, key: '', value: Buffer.from([0, 0xff, 0x0a, 0x80]) },
      ],
    });
    const records = await kafka.read(topic, { count: 3 });
    const [first, tombstone, binary] = records;
    assert.deepEqual(
      { ...first, valueBytes: first?.valueBytes?.toString() },
      {
        ...{ partition: 0, offset: 0, timestamp: 1700000000000, key: 'k,1', headers: { a: '1,b:2', b: '' } },
        ...{ value: '{"x":\n"\u00e9\\t"}', valueBytes: '{"x":\n"\u00e9\\t"}' },
      },
    );
    assert.deepEqual([tombstone?.key, tombstone?.value, tombstone?.valueBytes], [null, null, null]);
    assert.deepEqual([binary?.partition, binary?.key, binary?.headers], [1, '', {}]);
    assert.deepEqual(binary?.valueBytes, Buffer.from([0, 0xff, 0x0a, 0x80]));
    assert.deepEqual(await kafka.read(topic, { byConsole: true }), records);
    await assert.rejects(
      kafka.read(topic, { count: 4, timeoutMs: 300 }),
      /holds 3 records after 300 ms, not 4/,
    );
  });
});

requiring('secure-kafka', 'startSecureKafka', () => {
  let kafka: SecureKafka;
  before(async function () {
    this.timeout(60_000);
    kafka = await startSecureKafka();
    await kafka.createTopic('orders');
  });
  after(() => kafka?.stop());

  const secure = (change: Partial<KafkaConfig> = {}): KafkaConfig => ({
    brokers: kafka.secureBrokers,
    ssl: { ca: kafka.ca },
    sasl: { mechanism: 'scram-sha-512', username: kafka.user, password: kafka.password },
    ...change,
  });
  const record = { topic: 'orders', messages: [{ value: 'one' }] };

  it('takes the right password by SCRAM-SHA-512 and by PLAIN, and no other', async () => {
    const { user: username, password } = kafka;
    await send(secure(), record);
    await send(secure({ sasl: { mechanism: 'plain', username, password } }), record);
    for (const mechanism of ['plain', 'scram-sha-512'] as const) {
      const sasl = { mechanism, username, password: `${password}!` } as SASLOptions;
      await assert.rejects(send(secure({ sasl }), record), { name: 'KafkaJSSASLAuthenticationError' });
    }
    assert.equal(await kafka.count('orders'), 2);
  });

  it('has a certificate that nobody trusts without its authority', async () => {
    await assert.rejects(send(secure({ ssl: true }), record), (error: Error) => {
      assert.equal((error.cause as NodeJS.ErrnoException).code, 'SELF_SIGNED_CERT_IN_CHAIN');
      return true;
    });
  });

  it('can be frozen, killed and started again with its data on its port', async function () {
    this.timeout(60_000);
    const [address = ''] = kafka.brokers;
    await kafka.pause();
    await assert.rejects(describeCluster(address, 300), /no answer within 300 ms/);
    await kafka.resume();
    const { clusterId } = await describeCluster(address);
    await kafka.kill();
    await assert.rejects(describeCluster(address), /ECONNREFUSED/);
    await kafka.restart();
    assert.equal((await describeCluster(address)).clusterId, clusterId);
    await send(kafka, record);
    assert.equal(await kafka.count('orders'), 3);
  });
});

requiring('secure-kafka', 'a port that is taken after it was chosen', () => {
  for (const name of ['broker', 'controller', 'secure'] as const)
    it(`${name}: the start of Kafka says so, and another try takes other ports`, async function () {
      this.timeout(60_000);
      const jars = await ensureKafkaJars(() => {});
      const { keystore, password } = await ensureKafkaCertificates(jars);
      const folder = temporaryFolder('port-taken');
      const guard = guardFolder(folder);
      const security = { keystore, password, users: {} };
      const { ports, address, clusterId } = await prepareKafkaNode(jars, folder, security);
      const other = createServer((socket) => socket.destroy()).listen(ports[name], '127.0.0.1');
      const node = createKafkaNode({ jars, guard, folder, address, maxHeapMb: 256 });
      node.launch();
      await assert.rejects(node.ready({ clusterId }), PortTaken);
      other.close();
      await node.kill();
      await guard.release();
    });
});

requiring('own-kafka', 'a test run that is killed', () => {
  it('leaves no Kafka and no data behind', async function () {
    this.timeout(60_000);
    const fixture = join(import.meta.dirname, 'fixtures', 'start-kafka.ts');
    const run = spawn(process.execPath, [fixture], { stdio: ['ignore', 'pipe', 'inherit'] });
    const [output] = (await once(run.stdout, 'data')) as [Buffer];
    const { pid, folder } = JSON.parse(output.toString()) as Instance;
    assert.ok(pid && isAlive(pid) && existsSync(folder));
    run.kill('SIGKILL');
    for (let tries = 0; tries < 100 && (isAlive(pid) || existsSync(folder)); tries++) await sleep(50);
    assert.deepEqual({ alive: isAlive(pid), data: existsSync(folder) }, { alive: false, data: false });
  });
});
