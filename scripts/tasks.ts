import { spawn } from 'node:child_process';

/** One command of a run, and what it is called there. */
export interface Task {
  readonly title: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: NodeJS.ProcessEnv;
  /** It is killed then. */
  readonly timeoutMs?: number;
}

export interface TaskResult {
  /** It ended with 0. */
  readonly ok: boolean;
  readonly seconds: string;
}

export interface Together {
  /** Shows the first command while it runs. */
  readonly live?: boolean;
  /** Default: all. */
  readonly atOnce?: number;
}

/**
 * Runs commands side by side and shows what each has said as one piece, in the order of the list, when it and those before it
 * are done.
 */
export async function together(
  tasks: readonly Task[],
  { live = false, atOnce = tasks.length }: Together = {},
): Promise<TaskResult[]> {
  const waiting = tasks.map((task, index) => ({
    task,
    isLive: live && index === 0,
    ...Promise.withResolvers<End>(),
  }));
  const inTurn = waiting.values();
  const work = async (): Promise<void> => {
    for (const { task, isLive, resolve } of inTurn) resolve(await run(task, isLive));
  };
  for (let lane = 0; lane < atOnce; lane++) void work();
  const results: TaskResult[] = [];
  for (const { task, promise } of waiting) {
    const { output, ...result } = await promise;
    process.stdout.write(output);
    process.stdout.write(`== ${task.title}: ${result.ok ? 'ok' : 'FAILED'} in ${result.seconds} s\n`);
    results.push(result);
  }
  return results;
}

interface End extends TaskResult {
  /** Nothing, where it was shown live. */
  readonly output: Buffer;
}

function run({ title, command, args, cwd, env, timeoutMs }: Task, isLive: boolean): Promise<End> {
  const started = performance.now();
  const output: Buffer[] = [];
  const say = (chunk: Buffer): void => void (isLive ? process.stdout.write(chunk) : output.push(chunk));
  say(Buffer.from(`\n== ${title}\n`));
  const child = spawn(command, args, {
    ...{ cwd, env },
    ...(timeoutMs === undefined ? {} : { timeout: timeoutMs, killSignal: 'SIGKILL' }),
    stdio: isLive ? 'inherit' : ['ignore', 'pipe', 'pipe'],
  });
  child.stdout?.on('data', say);
  child.stderr?.on('data', say);
  return new Promise((resolve) => {
    const end = (ok: boolean): void => {
      const seconds = ((performance.now() - started) / 1000).toFixed(1);
      resolve({ ok, output: Buffer.concat(output), seconds });
    };
    child.once('error', ({ message }) => {
      say(Buffer.from(`${message}\n`));
      end(false);
    });
    child.once('close', (code, signal) => {
      if (signal !== null) say(Buffer.from(`ended by ${signal}\n`));
      end(code === 0);
    });
  });
}
