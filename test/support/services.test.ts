import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import kafkajs from 'kafkajs';
import { cacheFolder, checkoutFolder } from '../../scripts/services/cache.ts';
import { runCommand } from '../../scripts/services/commands.ts';
import { describeCluster } from '../../scripts/services/describe-cluster.ts';
import { mariadb } from '../../scripts/services/mariadb.ts';
import { mysql } from '../../scripts/services/mysql.ts';
import { postgres } from '../../scripts/services/postgres.ts';
import { isAlive } from '../../scripts/services/processes.ts';
import { s3Problem } from '../../scripts/services/s3.ts';
import { temporaryFolder } from './folders.ts';
import { requiring } from './requires.ts';

interface Row {
  readonly name: string;
  readonly state: string;
  readonly pid: number;
  readonly otherPids: readonly number[];
  readonly folder: string;
}

const names = ['kafka3', 'kafka-secure', 's3', 'postgres', 'mariadb', 'mysql'];
const databases = [postgres, mariadb, mysql];
const needs = ['secure-kafka', 'own-s3', 'own-postgres', 'own-mariadb', 'own-mysql'] as const;

requiring(needs, `npm run services, with ${names.join(', ')}`, function () {
  this.timeout(120_000);
  let cache: string;
  let rows: readonly Row[] = [];

  before(() => {
    // What was downloaded is shared; what `up` has started for somebody else on this machine is not touched.
    cache = temporaryFolder('services');
    for (const name of readdirSync(cacheFolder()))
      if (!['services', 'packed', 'test'].includes(name) && !name.endsWith('.lock'))
        symlinkSync(cacheFolder(name), join(cache, name));
  });
  after(async () => {
    await services('down');
  });

  async function services(...args: string[]): Promise<{ code: number | null; out: string; err: string }> {
    const given = /^(KAFKA|S3|AWS|KMS|VAULT|POSTGRES|MARIADB|MYSQL)_/;
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !given.test(name)));
    const file = join(checkoutFolder, 'scripts/services.ts');
    const { code, stdout, stderr } = await runCommand(process.execPath, [file, ...args], {
      timeoutMs: 90_000,
      env: { ...env, SVC_CACHE: cache },
    });
    return { code, out: stdout.toString(), err: stderr };
  }
  const pids = () => rows.flatMap(({ pid, otherPids }) => [pid, ...otherPids]);

  it('up starts what is named and outlives the command; up again keeps it', async () => {
    const first = await services('up', ...names);
    assert.equal(first.code, 0, first.err);
    for (const name of names)
      assert.match(first.out, new RegExp(`^${name}  (\\w+://)?(\\w+@)?127\\.0\\.0\\.1:\\d+`, 'm'));
    assert.equal(first.out.match(/ready in \d+\.\d s/g)?.length, names.length, first.out);
    const again = await services('up', ...names);
    assert.equal(again.out.match(/was up already/g)?.length, names.length, again.out);
  });

  it('status tells of each, with its processes and its folder', async () => {
    rows = JSON.parse((await services('status', '--json')).out) as Row[];
    assert.deepEqual(
      rows.map(({ name, state }) => [name, state]),
      names.map((name) => [name, 'answers']),
    );
    assert.equal(pids().length, 8);
    assert.ok(pids().every(isAlive));
    assert.ok(rows.every(({ folder }) => existsSync(folder)));
  });

  it('env prints what a client needs, and with that each is reached', async () => {
    const { code, out } = await services('env');
    assert.equal(code, 0);
    const env = Object.fromEntries(
      [...out.matchAll(/^export (\w+)=(.*)$/gm)].map(([, name, value]) => [name as string, value as string]),
    );
    assert.deepEqual(Object.keys(env), [
      'KAFKA3_BROKERS',
      ...['KAFKA_SECURE_BROKERS', 'KAFKA_SECURE_CA_FILE', 'KAFKA_SECURE_USER', 'KAFKA_SECURE_PASSWORD'],
      ...['S3_ENDPOINT', 'AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY'],
      ...databases.map(({ variable }) => variable),
    ]);
    for (const broker of env.KAFKA3_BROKERS?.split(',') ?? [])
      assert.equal((await describeCluster(broker)).brokers.length, 3);
    const admin = new kafkajs.Kafka({
      brokers: [env.KAFKA_SECURE_BROKERS ?? ''],
      ssl: { ca: readFileSync(env.KAFKA_SECURE_CA_FILE ?? '', 'utf8') },
      sasl: {
        mechanism: 'scram-sha-512',
        username: env.KAFKA_SECURE_USER ?? '',
        password: env.KAFKA_SECURE_PASSWORD ?? '',
      },
      logLevel: kafkajs.logLevel.NOTHING,
    }).admin();
    await admin.connect();
    assert.equal((await admin.describeCluster()).brokers.length, 1);
    await admin.disconnect();
    assert.equal(await s3Problem(env.S3_ENDPOINT ?? ''), null);
    for (const { variable, problem } of databases) assert.equal(await problem(env[variable] ?? ''), null);
  });

  it('down ends every process and removes every folder', async () => {
    const { code, out } = await services('down');
    assert.equal(code, 0);
    assert.equal(out.match(/ended, its data removed/g)?.length, names.length, out);
    assert.deepEqual(
      { processes: pids().filter(isAlive), folders: rows.filter(({ folder }) => existsSync(folder)) },
      { processes: [], folders: [] },
    );
    assert.equal(existsSync(join(cache, 'services')), false);
    assert.equal((await services('status')).out, 'nothing runs\n');
    const none = await services('env');
    assert.deepEqual([none.code, none.out], [1, '']);
  });
});
