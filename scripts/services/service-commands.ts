import { rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import { cacheFolder, withLock } from './cache.ts';
import { describeCluster } from './describe-cluster.ts';
import { type Instance, listInstances, removeInstance } from './instances.ts';
import { brokersFromEnv, startKafkaServer, useGivenKafka } from './kafka.ts';

export interface CommandFlags {
  readonly another: boolean;
  readonly json: boolean;
}

const progress = (line: string): void => console.error(line);

/** What `npm run services` does, by the name of the command; each returns the exit code. */
export const serviceCommands: Readonly<Record<string, (flags: CommandFlags) => Promise<number>>> = {
  up: ({ another }) => withLock(cacheFolder('services-up.lock'), () => up(another)),
  down,
  status,
  env,
};

async function up(another: boolean): Promise<number> {
  const given = await useGivenKafka();
  if (given) {
    console.log(`kafka  ${given.brokers.join(',')}  as named by KAFKA_BROKERS`);
    return 0;
  }
  if (!another) {
    for (const instance of await ours()) {
      if (await answers(instance)) {
        describe(instance, 'was up already');
        return 0;
      }
      await removeInstance(instance);
    }
  }
  const started = Date.now();
  const { instance } = await startKafkaServer({ keep: true, log: progress });
  if (instance) describe(instance, `ready in ${((Date.now() - started) / 1000).toFixed(1)} s`);
  console.log('For your shell: eval "$(npm run -s services -- env)"   To end it: npm run services -- down');
  return 0;
}

async function down(): Promise<number> {
  const instances = await ours();
  for (const instance of instances) {
    await removeInstance(instance);
    console.log(`${instance.name}  ${instance.address}  ended, its data removed`);
  }
  const inUse = (await listInstances()).length;
  if (instances.length === 0) console.log('nothing to end');
  if (inUse > 0) console.log(`${inUse} belong to test runs that are at work, and end with them`);
  await rmdir(cacheFolder('services')).catch(() => {}); // only when it is empty
  return 0;
}

async function status({ json }: CommandFlags): Promise<number> {
  const rows = await Promise.all(
    (await listInstances()).map(async (instance) => ({
      name: instance.name,
      address: instance.address,
      state: (await answers(instance)) ? 'answers' : 'does not answer',
      from: instance.how,
      pid: instance.pid,
      ports: instance.ports,
      owner: instance.owner,
      startedAt: instance.startedAt,
      folder: instance.folder,
    })),
  );
  if (json) console.log(JSON.stringify(rows, null, 2));
  else if (rows.length === 0) console.log('nothing runs');
  else {
    console.log(line('SERVICE', 'ADDRESS', 'STATE', 'FROM', 'PID', 'ENDED BY', 'FOLDER'));
    for (const row of rows) {
      const endedBy = row.owner === null ? 'down' : `process ${row.owner}`;
      console.log(
        line(row.name, row.address, row.state, row.from, String(row.pid ?? '-'), endedBy, row.folder),
      );
    }
  }
  return 0;
}

async function env(): Promise<number> {
  const given = brokersFromEnv();
  const brokers = given.length > 0 ? given.join(',') : (await ours()).at(-1)?.address;
  if (!brokers) {
    console.error('no Kafka is up: npm run services -- up kafka');
    return 1;
  }
  console.log(`export KAFKA_BROKERS=${brokers}`);
  return 0;
}

/** The instances that `up` has started: those of test runs are theirs. */
async function ours(): Promise<Instance[]> {
  return (await listInstances()).filter(({ owner }) => owner === null);
}

async function answers({ address }: Instance): Promise<boolean> {
  return describeCluster(address).then(
    () => true,
    () => false,
  );
}

function describe(instance: Instance, state: string): void {
  const from = instance.how === 'docker' ? 'in Docker' : `process ${instance.pid}`;
  console.log(`${instance.name}  ${instance.address}  ${state}  (${from}, log ${logOf(instance)})`);
}

function logOf(instance: Instance): string {
  return instance.how === 'docker'
    ? `docker compose -p svc-${instance.id} logs`
    : join(instance.folder, 'kafka.log');
}

function line(...cells: string[]): string {
  const widths = [8, 16, 16, 7, 8, 15, 0];
  return cells
    .map((cell, index) => cell.padEnd(widths[index] ?? 0))
    .join(' ')
    .trimEnd();
}
