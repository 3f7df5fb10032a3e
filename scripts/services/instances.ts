import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cacheFolder, checkoutFolder } from './cache.ts';
import { composeDown } from './docker.ts';
import { commandLineOf, isAlive, processesBelow, signalGroup, waitForEnd } from './processes.ts';

/** One server that was started from here: `state.json` in its folder `run-<id>`, which holds its data and log as well. */
export interface Instance {
  readonly id: string;
  readonly folder: string;
  /** Name of the service, such as `kafka`. */
  readonly name: string;
  /** The checkout it was started from: several can share a cache folder. */
  readonly checkout: string;
  /** The process it lives and dies with (a test run, or `up` until all is ready); `null` when only `down` ends it. */
  readonly owner: number | null;
  readonly how: 'jars' | 'docker' | 'process';
  readonly pid: number | null;
  /** The other processes, of a service that has several. */
  readonly otherPids?: readonly number[];
  readonly ports: Readonly<Record<string, number>>;
  /** What a client connects to. */
  readonly address: string;
  readonly startedAt: string;
}

const servicesFolder = (): string => cacheFolder('services');

/** Makes the folder of a new instance; it belongs to this process until `saveInstance` says otherwise. */
export async function newInstance(name: string, how: Instance['how']): Promise<Instance> {
  const id = randomBytes(4).toString('hex');
  const folder = join(servicesFolder(), `run-${id}`);
  await mkdir(folder, { recursive: true });
  const instance: Instance = {
    ...{ id, folder, name, how, checkout: checkoutFolder, owner: process.pid },
    ...{ pid: null, ports: {}, address: '', startedAt: new Date().toISOString() },
  };
  await saveInstance(instance);
  return instance;
}

export async function saveInstance(instance: Instance): Promise<void> {
  const file = join(instance.folder, 'state.json');
  await writeFile(`${file}.new`, `${JSON.stringify(instance, null, 2)}\n`);
  await rename(`${file}.new`, file);
}

/** All instances of this checkout, oldest first; those that nobody can use any more are removed on the way. */
export async function listInstances(): Promise<Instance[]> {
  const names = existsSync(servicesFolder()) ? await readdir(servicesFolder()) : [];
  const found: Instance[] = [];
  for (const name of names.filter((each) => each.startsWith('run-'))) {
    const folder = join(servicesFolder(), name);
    const instance = await readInstance(folder);
    if (instance === null) {
      if (await isOld(folder)) await rm(folder, { recursive: true, force: true });
    } else if (isStale(instance)) {
      await removeInstance(instance);
    } else if (instance.checkout === checkoutFolder) {
      found.push(instance);
    }
  }
  return found.sort((a, b) => a.startedAt.localeCompare(b.startedAt));
}

/** Ends the server, if it runs, and removes its folder. */
export async function removeInstance(instance: Instance): Promise<void> {
  const known = pidsOf(instance).filter((pid) => isOf(instance, pid));
  const running = [...known, ...(await Promise.all(known.map(processesBelow))).flat()];
  for (const pid of running) signalGroup(pid, 'SIGKILL');
  for (const pid of running) await waitForEnd(pid);
  if (instance.how === 'docker') await composeDown(composeProject(instance));
  await rm(instance.folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
}

/** Whether a process of the instance runs and is still one that was started. */
export function isServer(instance: Instance): boolean {
  return pidsOf(instance).some((pid) => isOf(instance, pid));
}

export function pidsOf({ pid, otherPids = [] }: Instance): number[] {
  return pid === null ? [] : [pid, ...otherPids];
}

function isOf({ folder }: Instance, pid: number): boolean {
  return isAlive(pid) && commandLineOf(pid).includes(folder);
}

/** The name under which Docker Compose knows an instance. */
export function composeProject({ id }: Instance): string {
  return `svc-${id}`;
}

async function readInstance(folder: string): Promise<Instance | null> {
  try {
    return { ...JSON.parse(await readFile(join(folder, 'state.json'), 'utf8')), folder };
  } catch {
    return null;
  }
}

function isStale(instance: Instance): boolean {
  if (instance.owner !== null) return !isAlive(instance.owner);
  return instance.how !== 'docker' && !isServer(instance);
}

// A folder without a state is one that is being made or removed right now, unless it is old.
async function isOld(folder: string): Promise<boolean> {
  const made = await stat(folder).catch(() => null);
  return made !== null && Date.now() - made.mtimeMs > 60_000;
}
