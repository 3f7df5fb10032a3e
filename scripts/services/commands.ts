import { spawn } from 'node:child_process';

export interface CommandOptions {
  readonly timeoutMs: number;
  readonly cwd?: string;
  readonly env?: NodeJS.ProcessEnv;
  /** Called for each line of standard output while the command runs. */
  readonly onLine?: (line: string) => void;
}

export interface CommandResult {
  /** `null` when the command was ended by the time-out or by a signal, 127 when there is no such program. */
  readonly code: number | null;
  readonly stdout: Buffer;
  readonly stderr: string;
}

/** Runs a command to its end and never throws: a missing program is code 127. */
export function runCommand(
  program: string,
  args: readonly string[],
  options: CommandOptions,
): Promise<CommandResult> {
  return new Promise((resolve) => {
    const child = spawn(program, args, {
      cwd: options.cwd,
      env: options.env ?? process.env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    // Not spawn's own time-out: its timer goes on, and keeps us alive, when there is no such program.
    const timer = setTimeout(() => child.kill('SIGKILL'), options.timeoutMs);
    const stdout: Buffer[] = [];
    let stderr = '';
    let rest = '';
    child.stdout.on('data', (chunk: Buffer) => {
      stdout.push(chunk);
      if (!options.onLine) return;
      const lines = (rest + chunk.toString('latin1')).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) options.onLine(line);
    });
    child.stderr.on('data', (chunk: Buffer) => {
      stderr += chunk.toString();
    });
    child.once('error', (error: NodeJS.ErrnoException) => {
      clearTimeout(timer);
      resolve({ code: error.code === 'ENOENT' ? 127 : 126, stdout: Buffer.alloc(0), stderr: error.message });
    });
    child.once('close', (code) => {
      clearTimeout(timer);
      resolve({ code, stdout: Buffer.concat(stdout), stderr });
    });
  });
}

/** The last lines of an output, for an error message. */
export function lastLines(text: string | Buffer, count = 12): string {
  return text.toString().trimEnd().split('\n').slice(-count).join('\n');
}
