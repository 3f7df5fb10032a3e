import { spawn } from 'node:child_process';

/** One command of a run, and what it is called there. */
export interface Task {
  readonly title: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: NodeJS.ProcessEnv;
}

/**
 * Runs commands side by side and shows what each has said as one piece, in the order of the list: of `live` ones the first
 * while it runs, all others when they and those before them are done.
 * @returns for each whether it ended with 0
 */
export async function together(tasks: readonly Task[], live = false): Promise<boolean[]> {
  const running = tasks.map((task, index) => start(task, live && index === 0));
  const results: boolean[] = [];
  for (const { title, ended } of running) {
    const { ok, output, seconds } = await ended;
    process.stdout.write(output);
    process.stdout.write(`== ${title}: ${ok ? 'ok' : 'FAILED'} in ${seconds} s\n`);
    results.push(ok);
  }
  return results;
}

interface End {
  readonly ok: boolean;
  /** Nothing, where it was shown live. */
  readonly output: Buffer;
  readonly seconds: string;
}

function start(
  { title, command, args, cwd, env }: Task,
  live: boolean,
): { title: string; ended: Promise<End> } {
  const started = performance.now();
  const output: Buffer[] = [];
  const say = (chunk: Buffer): void => void (live ? process.stdout.write(chunk) : output.push(chunk));
  say(Buffer.from(`\n== ${title}\n`));
  const child = spawn(command, args, {
    ...{ cwd, env },
    stdio: live ? 'inherit' : ['ignore', 'pipe', 'pipe'],
  });
  child.stdout?.on('data', say);
  child.stderr?.on('data', say);
  const ended = new Promise<End>((resolve) => {
    const end = (ok: boolean): void => {
      const seconds = ((performance.now() - started) / 1000).toFixed(1);
      resolve({ ok, output: Buffer.concat(output), seconds });
    };
    child.once('error', ({ message }) => {
      say(Buffer.from(`${message}\n`));
      end(false);
    });
    child.once('close', (code) => end(code === 0));
  });
  return { title, ended };
}
