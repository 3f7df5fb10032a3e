import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { hostEnvironment } from '../../e2e/support/run-app.ts';

export const keyCount = 60;
/** Of each application. */
export const workers = 8;

export interface OutboxAppOptions {
  /** Folder of its own below an application in which svc is installed. */
  readonly folder: string;
  readonly databaseUrl: string;
  /** In `application/`. */
  readonly driver: string;
  /** Under `svc.broker` of its configuration. */
  readonly broker: Readonly<Record<string, unknown>>;
  /** Each has keys of its own: 0 or 1. */
  readonly index: number;
  /** The mean time between two transactions of one of its eight workers. */
  readonly pauseMs: number;
}

const programs = join(import.meta.dirname, 'application');

/** An application whose transactions store orders and their events, with the relay in it; it can be killed and started again. */
export interface OutboxApp {
  /** Of its last start. */
  readonly pid: number | undefined;
  start(): Promise<void>;
  kill(): Promise<void>;
  pause(): void;
  resume(): void;
  /** Ends the load; svc and its relay go on. */
  stop(): Promise<void>;
  /** SIGTERM, and its end. */
  end(): Promise<void>;
  log(): string;
}

const running = new Set<ChildProcess>();
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

export function createOutboxApp(options: OutboxAppOptions): OutboxApp {
  const { folder, databaseUrl, index } = options;
  mkdirSync(folder, { recursive: true });
  const outbox = { enabled: true, datasource: { url: databaseUrl }, 'initialize-schema': 'always' };
  const target = {
    ...{ module: './main.mjs', function: 'order', eventType: 'ORDERED', payload: '#result' },
    outbox: { aggregateType: 'Order', aggregateId: '#result.key' },
  };
  const config = {
    svc: { broker: options.broker, outbox, targets: [target] },
    management: { server: { port: 0 } },
  };
  writeFileSync(join(folder, 'svc.config.json'), JSON.stringify(config, null, 2));
  copyFileSync(join(programs, 'main.mjs'), join(folder, 'main.mjs'));
  copyFileSync(join(programs, options.driver), join(folder, 'database.mjs'));
  let child: ChildProcess | undefined;
  let said = '';
  let log = '';

  async function told(word: string, timeoutMs: number): Promise<void> {
    for (const end = Date.now() + timeoutMs; !said.includes(word); await sleep(20)) {
      if (child !== undefined && running.has(child) && Date.now() < end) continue;
      throw new Error(`the application did not say ${word}:\n${log.slice(-2_000)}`);
    }
  }
  async function ended(signal: NodeJS.Signals): Promise<void> {
    if (child === undefined || !running.has(child)) return;
    const exit = once(child, 'exit');
    child.kill(signal);
    const timer = setTimeout(() => child?.kill('SIGKILL'), 30_000);
    await exit;
    clearTimeout(timer);
  }

  return {
    get pid() {
      return child?.pid;
    },
    async start() {
      said = '';
      const made = spawn(process.execPath, ['--import', 'svc/register', 'main.mjs'], {
        cwd: folder,
        stdio: 'pipe',
        env: {
          ...hostEnvironment(),
          ...{ DATABASE_URL: databaseUrl, FAULT_WORKERS: String(workers), FAULT_KEYS: String(keyCount) },
          ...{ FAULT_WORKER_FROM: String(index * workers), FAULT_PAUSE_MS: String(options.pauseMs) },
        },
      });
      child = made;
      running.add(made);
      made.once('exit', () => running.delete(made));
      made.once('error', (error) => {
        running.delete(made);
        log += `${error.message}\n`;
      });
      made.stdin.on('error', () => {});
      made.stdout.setEncoding('utf8').on('data', (text: string) => {
        said += text;
      });
      made.stderr.setEncoding('utf8').on('data', (text: string) => {
        log += text;
        appendFileSync(join(folder, 'app.log'), text);
      });
      await told('ready', 15_000);
    },
    kill: () => ended('SIGKILL'),
    pause: () => void child?.kill('SIGSTOP'),
    resume: () => void child?.kill('SIGCONT'),
    async stop() {
      child?.stdin?.write('stop\n');
      await told('stopped', 60_000);
    },
    end: () => ended('SIGTERM'),
    log: () => log,
  };
}
