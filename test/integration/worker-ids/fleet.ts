import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, fstatSync, mkdirSync, openSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { temporaryFolder } from '../../support/folders.ts';
import { until } from '../../support/until.ts';
import { readLog, workerOf } from './account.ts';

const program = fileURLToPath(new URL('./fleet-member.ts', import.meta.url));

export interface Member {
  readonly log: string;
  readonly child: ChildProcess;
}

/** Processes with a folder of their own each, as if each were alone on its host. */
export class Fleet {
  readonly folder = temporaryFolder('fleet');
  readonly members: Member[] = [];
  readonly errors: string[] = [];
  private readonly orders: { brokers: readonly string[]; group: string; idsPerSecond: number };

  constructor(orders: { brokers: readonly string[]; group: string; idsPerSecond: number }) {
    this.orders = orders;
  }

  start(): Member {
    const number = this.members.length;
    const folder = join(this.folder, `host-${number}`);
    mkdirSync(folder);
    const log = join(this.folder, `${number}.log`);
    const client = number % 2 === 0 ? 'kafkajs' : 'platformatic';
    const orders = JSON.stringify({ ...this.orders, folder, log, client });
    const child = spawn(process.execPath, [...process.execArgv, program, orders], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    child.stderr?.on('data', (text) => this.errors.push(`${number}: ${text}`));
    const member = { log, child };
    this.members.push(member);
    return member;
  }

  /** A few at once: starting Node is work, and not what is looked at. */
  async startMany(count: number): Promise<Member[]> {
    const started: Member[] = [];
    while (started.length < count) {
      for (let left = Math.min(6, count - started.length); left > 0; left--) started.push(this.start());
      await Promise.all(started.map((member) => waitFor(() => lastLine(member) !== undefined, 120_000)));
    }
    return started;
  }

  alive(): Member[] {
    return this.members.filter(({ child }) => child.exitCode === null && child.signalCode === null);
  }

  /** Until each of them has a leased worker id, and no two the same; returns how long that took. */
  async allLeased(members: readonly Member[], limitMs: number): Promise<number> {
    const beganMs = performance.now();
    let found = 0;
    const isSo = (): boolean => {
      const leased = members.map(lastLine).filter((line) => line?.source === 'kafka');
      found = new Set(leased.map((line) => line?.workerId)).size;
      return found === members.length;
    };
    await waitFor(isSo, limitMs).catch(({ message }: Error) => {
      const rest = members.filter((member) => lastLine(member)?.source !== 'kafka').map(({ log }) => log);
      throw new Error(
        `${found} different worker ids of ${members.length}, ${message}: ${rest} ${this.errors.join('')}`,
      );
    });
    return performance.now() - beganMs;
  }

  async end(signal: NodeJS.Signals, members: readonly Member[]): Promise<void> {
    const living = members.filter((member) => this.alive().includes(member));
    await Promise.all(
      living.map(({ child }) => {
        const exited = once(child, 'exit');
        child.kill(signal);
        return exited;
      }),
    );
  }

  async remove(): Promise<void> {
    await this.end('SIGKILL', this.members);
  }
}

/** The worker ids that a process had since a time, with how they were come by, in their order. */
export function workersSince({ log }: Member, sinceId: string): string[] {
  const found: string[] = [];
  for (const { id, source } of readLog(log)) {
    if (BigInt(id) <= BigInt(sinceId)) continue;
    const worker = `${source} ${workerOf(id)}`;
    if (found.at(-1) !== worker) found.push(worker);
  }
  return found;
}

export function lastLine({ log }: Member): { id: string; source: string; workerId: number } | undefined {
  const text = lastTextOf(log);
  const end = text.lastIndexOf('\n');
  if (end < 0) return undefined;
  const [id = '', source = ''] = text.slice(text.lastIndexOf('\n', end - 1) + 1, end).split(' ');
  return { id, source, workerId: workerOf(id) };
}

/** The logs grow to megabytes, and are looked at again and again. */
function lastTextOf(log: string): string {
  let file: number;
  try {
    file = openSync(log, 'r');
  } catch {
    return '';
  }
  try {
    const bytes = Buffer.alloc(200);
    const from = Math.max(0, fstatSync(file).size - bytes.length);
    return bytes.toString('utf8', 0, readSync(file, bytes, 0, bytes.length, from));
  } finally {
    closeSync(file);
  }
}

const waitFor = (isSo: () => boolean, limitMs: number): Promise<void> =>
  until(isSo, { limitMs, everyMs: 200 });
