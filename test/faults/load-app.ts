import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePorts } from '../../scripts/services/ports.ts';
import { type Outcome, outcomes } from '../../src/observe/outcomes.ts';
import { hostEnvironment } from '../e2e/support/run-app.ts';

/** What svc counted, as its metrics endpoint says it. */
export interface Ledger extends Readonly<Record<Outcome, number>> {
  readonly calls: number;
  readonly retries: number;
  readonly inFlight: number;
}

export interface LoadAppOptions {
  /** Folder of its own below an application in which svc is installed. */
  readonly folder: string;
  /** Under `svc.broker` of its configuration. */
  readonly broker: Readonly<Record<string, unknown>>;
  readonly env?: Readonly<Record<string, string>>;
  /** Shell commands that run before it, in mounts of its own. */
  readonly mounts?: string | undefined;
}

export interface LoadApp {
  readonly folder: string;
  readonly pid: number;
  load(callsPerSecond: number): void;
  /** Ends the load. Resolves with the calls that were made, by key, and the longest that one of them waited. */
  stop(): Promise<{
    readonly calls: number;
    readonly numbers: readonly number[];
    readonly longestWaitMs: number;
  }>;
  ledger(): Promise<Ledger>;
  /** Waits until an event has reached its topic. */
  published(timeoutMs: number): Promise<void>;
  /** Waits until every event has its outcome. */
  settled(timeoutMs: number): Promise<Ledger>;
  /** What it wrote to standard error so far. */
  log(): string;
  /** SIGTERM, and its end. */
  end(): Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>;
  kill(): void;
}

export const keyCount = 60;
const paddingBytes = 700;

const running = new Set<ChildProcess>();
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

/** Starts an application with svc as a preload, in a process of its own. */
export async function startLoadApp(options: LoadAppOptions): Promise<LoadApp> {
  const { folder, mounts } = options;
  const [port] = (await freePorts(1)) as [number];
  mkdirSync(folder, { recursive: true });
  const target = {
    module: './main.mjs',
    function: 'order',
    eventType: 'ORDERED',
    key: '#key',
    payload: '#result',
  };
  const config = { svc: { log: { level: 'debug' }, broker: options.broker, targets: [target] } };
  writeFileSync(join(folder, 'svc.config.json'), JSON.stringify(config, null, 2));
  writeFileSync(join(folder, 'main.mjs'), readFileSync(join(import.meta.dirname, 'app.mjs')));
  const command = [process.execPath, '--import', 'svc/register', 'main.mjs'];
  const [program = '', ...args] = mounts
    ? ['unshare', '--mount', '--map-root-user', 'sh', '-c', `${mounts} && exec "$0" "$@"`, ...command]
    : command;
  const child = spawn(program, args, {
    cwd: folder,
    stdio: 'pipe',
    env: {
      ...hostEnvironment(),
      ...{ MANAGEMENT_SERVER_PORT: String(port), FAULT_KEYS: String(keyCount) },
      ...{ FAULT_PADDING: String(paddingBytes), ...options.env },
    },
  });
  running.add(child);
  child.once('exit', () => running.delete(child));
  child.stdin.on('error', () => {});
  let stdout = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  const log = createWriteStream(join(folder, 'app.log'));
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    log.write(text);
    stderr += text;
  });

  const waitFor = async (pattern: RegExp, timeoutMs: number): Promise<RegExpExecArray> => {
    for (const end = Date.now() + timeoutMs; ; await sleep(20)) {
      const found = pattern.exec(stdout);
      if (found !== null) return found;
      if (running.has(child) && Date.now() <= end) continue;
      const how = running.has(child) ? 'in time' : `and ended with ${child.exitCode ?? child.signalCode}`;
      throw new Error(`the application did not say ${pattern} ${how}:\n${stdout}\n${stderr.slice(-2_000)}`);
    }
  };
  const ledger = async (): Promise<Ledger> => {
    const answer = await fetch(`http://127.0.0.1:${port}/metrics`, { signal: AbortSignal.timeout(5_000) });
    const text = await answer.text();
    const value = (name: string): number =>
      [...text.matchAll(new RegExp(`^svc_events_${name}\\{[^}]*\\} (\\S+)`, 'gm'))].reduce(
        (sum, match) => sum + Number(match[1]),
        0,
      );
    const ends = outcomes.map((outcome) => [outcome, value(`${outcome}_total`)]);
    return {
      ...(Object.fromEntries(ends) as Record<Outcome, number>),
      ...{ calls: value('calls_total'), retries: value('retry_count_total'), inFlight: value('in_flight') },
    };
  };

  await waitFor(/^ready$/m, 15_000);
  return {
    folder,
    pid: child.pid ?? 0,
    load: (rate) => void child.stdin.write(`load ${rate}\n`),
    async stop() {
      child.stdin.write('stop\n');
      return JSON.parse((await waitFor(/^\{.*\}$/m, 10_000))[0]);
    },
    ledger,
    async published(timeoutMs) {
      // The management server comes a moment after the application.
      const count = async (): Promise<number> => (await ledger().catch(() => undefined))?.published ?? 0;
      for (const end = Date.now() + timeoutMs; (await count()) === 0; await sleep(100)) {
        if (Date.now() > end)
          throw new Error(`no event reached its topic within ${timeoutMs} ms:\n${stderr}`);
      }
    },
    async settled(timeoutMs) {
      for (const end = Date.now() + timeoutMs; ; await sleep(100)) {
        const now = await ledger();
        if (now.inFlight === 0) return now;
        if (Date.now() > end) throw new Error(`${now.inFlight} events have no outcome after ${timeoutMs} ms`);
      }
    },
    log: () => stderr,
    async end() {
      if (!running.has(child)) return { code: child.exitCode, signal: child.signalCode };
      const ended = once(child, 'exit');
      child.kill('SIGTERM');
      const timer = setTimeout(() => child.kill('SIGKILL'), 30_000);
      await ended;
      clearTimeout(timer);
      return { code: child.exitCode, signal: child.signalCode };
    },
    kill: () => void child.kill('SIGKILL'),
  };
}
