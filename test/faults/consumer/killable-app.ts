import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { hostEnvironment } from '../../e2e/support/run-app.ts';
import { until } from '../../support/until.ts';

const running = new Set<ChildProcess>();
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

/** A program with svc that can be killed and started again. */
export interface KillableApp {
  start(): void;
  kill(): Promise<void>;
  /** Tells it to end its load, and waits for that. */
  stop(): Promise<void>;
  said(): string;
}

export function killableApp(cwd: string, program: string, env: NodeJS.ProcessEnv): KillableApp {
  let child: ChildProcess | undefined;
  let said = '';
  return {
    start() {
      const made = spawn(process.execPath, ['--import', 'svc/register', program], {
        ...{ cwd, stdio: 'pipe' as const },
        env: { ...hostEnvironment(), ...env, MANAGEMENT_SERVER_PORT: '-1' },
      });
      child = made;
      running.add(made);
      made.once('exit', () => running.delete(made));
      made.stdin.on('error', () => {});
      for (const output of [made.stdout, made.stderr])
        output.setEncoding('utf8').on('data', (text: string) => {
          said += text;
        });
    },
    async kill() {
      if (child === undefined || !running.has(child)) return;
      const exit = once(child, 'exit');
      child.kill('SIGKILL');
      await exit;
    },
    async stop() {
      child?.stdin?.write('stop\n');
      await until(() => said.includes('stopped'), { limitMs: 20_000, say: () => said.slice(-2_000) });
    },
    said: () => said,
  };
}
