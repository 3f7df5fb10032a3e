import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';

/** Whether a process runs. One that has ended but was not yet reaped by its parent does not. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
  if (process.platform !== 'linux') return true;
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    return !stat.slice(stat.lastIndexOf(')') + 2).startsWith('Z');
  } catch {
    return false;
  }
}

/** The command line of a process, or '' when there is none: it tells a process of ours from a later one with the same id. */
export function commandLineOf(pid: number): string {
  try {
    if (process.platform === 'linux')
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
    return execFileSync('ps', ['-ww', '-o', 'command=', '-p', String(pid)], { encoding: 'utf8' });
  } catch {
    return '';
  }
}

/** Sends a signal to a process group; whether there was one. */
export function signalGroup(pid: number, signal: NodeJS.Signals): boolean {
  try {
    process.kill(-pid, signal);
    return true;
  } catch {
    return false;
  }
}

/** Freezes a process group (SIGSTOP): once this resolves, its leader does nothing any more. */
export async function pauseGroup(pid: number): Promise<void> {
  signalGroup(pid, 'SIGSTOP');
  await untilStopped(pid);
}

/** The processes that a process has started, and those that these have: PostgreSQL makes each a group of its own. */
export async function processesBelow(pid: number): Promise<number[]> {
  const parents = await parentIds();
  const below = [pid];
  for (const each of below) below.push(...parents.filter(([, parent]) => parent === each).map(([id]) => id));
  return below.slice(1);
}

async function parentIds(): Promise<[id: number, parent: number][]> {
  if (process.platform !== 'linux') {
    const table = execFileSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8' });
    return table.split('\n').map((line) => line.trim().split(/\s+/).map(Number) as [number, number]);
  }
  const ids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const stats = await Promise.all(ids.map((id) => readFile(`/proc/${id}/stat`, 'latin1').catch(() => '')));
  return stats.map((stat) => [Number.parseInt(stat, 10), Number(/\) \S (\d+) [^)]*$/.exec(stat)?.[1])]);
}

/** On a busy machine the threads of a process run on for a while after the signal; one may have ended meanwhile. Where there is no /proc, a moment has to do. */
async function untilStopped(pid: number): Promise<void> {
  for (let tries = 0; tries < 200; tries++) {
    await sleep(10);
    const states = await threadStates(pid);
    if (states === undefined ? tries > 10 : states.every((state) => 'TtZX'.includes(state ?? 'X'))) return;
  }
}

async function threadStates(pid: number): Promise<(string | undefined)[] | undefined> {
  try {
    const tasks = await readdir(`/proc/${pid}/task`);
    const stats = await Promise.all(tasks.map((task) => readFile(`/proc/${pid}/task/${task}/stat`, 'utf8')));
    return stats.map((stat) => /^\d+ \(.*\) (\S)/s.exec(stat)?.[1]);
  } catch {
    return undefined;
  }
}

/** Waits until a process has ended; throws when it has not within `timeoutMs`. */
export async function waitForEnd(pid: number, timeoutMs = 10_000): Promise<void> {
  const end = Date.now() + timeoutMs;
  while (isAlive(pid)) {
    if (Date.now() > end) throw new Error(`process ${pid} did not end within ${timeoutMs} ms`);
    await sleep(20);
  }
}
