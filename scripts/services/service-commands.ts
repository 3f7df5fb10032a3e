import { rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import { cacheFolder, withLock } from './cache.ts';
import { type Instance, listInstances, pidsOf, removeInstance } from './instances.ts';
import type { Service } from './service.ts';
import { services } from './service-list.ts';

export interface CommandFlags {
  /** What was named, all services where nothing was; `up` then takes the first. */
  readonly services: readonly Service[];
  readonly another: boolean;
  readonly json: boolean;
}

const progress = (line: string): void => console.error(line);

/** What `npm run services` does, by the name of the command; each returns the exit code. */
export const serviceCommands: Readonly<Record<string, (flags: CommandFlags) => Promise<number>>> = {
  up: ({ services: wanted, another }) => withLock(cacheFolder('services-up.lock'), () => up(wanted, another)),
  down,
  status,
  env,
};

async function up(wanted: readonly Service[], another: boolean): Promise<number> {
  for (const service of wanted) await upOne(service, another);
  console.log('For your shell: eval "$(npm run -s services -- env)"   To end it: npm run services -- down');
  return 0;
}

async function upOne(service: Service, another: boolean): Promise<void> {
  const given = await service.useGiven();
  if (given !== null) {
    console.log(`${service.name}  ${given}  as named by ${service.variables}`);
    return;
  }
  if (!another) {
    for (const instance of await ours([service])) {
      if (await service.answers(instance)) return describe(instance, 'was up already');
      await removeInstance(instance);
    }
  }
  const started = Date.now();
  const instance = await service.start(progress);
  if (instance) describe(instance, `ready in ${((Date.now() - started) / 1000).toFixed(1)} s`);
}

async function down({ services: wanted }: CommandFlags): Promise<number> {
  const instances = await ours(wanted);
  for (const instance of instances) {
    await removeInstance(instance);
    console.log(`${instance.name}  ${instance.address}  ended, its data removed`);
  }
  const inUse = (await listInstances()).filter(({ owner }) => owner !== null).length;
  if (instances.length === 0) console.log('nothing to end');
  if (inUse > 0) console.log(`${inUse} belong to test runs that are at work, and end with them`);
  await rmdir(cacheFolder('services')).catch(() => {}); // only when it is empty
  return 0;
}

async function status({ services: wanted, json }: CommandFlags): Promise<number> {
  const rows = await Promise.all(
    (await listOf(wanted)).map(async (instance) => ({
      name: instance.name,
      address: instance.address,
      state: (await answers(instance)) ? 'answers' : 'does not answer',
      from: instance.how,
      pid: instance.pid,
      otherPids: instance.otherPids ?? [],
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
        line(
          row.name,
          row.address,
          row.state,
          row.from,
          [row.pid ?? '-', ...row.otherPids].join(','),
          endedBy,
          row.folder,
        ),
      );
    }
  }
  return 0;
}

async function env({ services: wanted }: CommandFlags): Promise<number> {
  const lines: string[] = [];
  for (const service of wanted) lines.push(...service.env((await ours([service])).at(-1)));
  for (const line of lines) console.log(line);
  if (lines.length > 0) return 0;
  console.error(`no ${wanted.map(({ name }) => name).join(', ')} is up: npm run services -- up`);
  return 1;
}

/** The instances that `up` has started: those of test runs are theirs. */
async function ours(wanted: readonly Service[]): Promise<Instance[]> {
  return (await listOf(wanted)).filter(({ owner }) => owner === null);
}

async function listOf(wanted: readonly Service[]): Promise<Instance[]> {
  return (await listInstances()).filter(({ name }) => wanted.some((service) => service.name === name));
}

async function answers(instance: Instance): Promise<boolean> {
  const service = services.find(({ name }) => name === instance.name);
  return service !== undefined && (await service.answers(instance));
}

function describe(instance: Instance, state: string): void {
  const from = instance.how === 'docker' ? 'in Docker' : `process ${pidsOf(instance).join(', ')}`;
  console.log(`${instance.name}  ${instance.address}  ${state}  (${from}, log ${logOf(instance)})`);
}

const logFiles: Readonly<Record<string, string>> = {
  kafka3: 'node1/kafka.log',
  'kafka-secure': 'kafka.log',
};

function logOf(instance: Instance): string {
  return instance.how === 'docker'
    ? `docker compose -p svc-${instance.id} logs`
    : join(instance.folder, logFiles[instance.name] ?? `${instance.name}.log`);
}

function line(...cells: string[]): string {
  const widths = [12, 24, 16, 8, 8, 15, 0];
  return cells
    .map((cell, index) => cell.padEnd(widths[index] ?? 0))
    .join(' ')
    .trimEnd();
}
