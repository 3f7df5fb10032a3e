import { spawn } from 'node:child_process';
import { once } from 'node:events';

const program = `
  const { DatabaseSync } = require('node:sqlite');
  new DatabaseSync(process.argv[1], { timeout: 10_000 }).exec('BEGIN EXCLUSIVE');
  console.log('locked');
  process.stdin.resume().on('end', () => process.exit());
`;

/** Another process that has a file of SQLite for itself, until it is released: it is killed then. */
export async function lockFile(path: string): Promise<{ release(): Promise<void> }> {
  const child = spawn(process.execPath, ['--no-warnings', '-e', program, path], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit');
  const said = await Promise.race([once(child.stdout, 'data'), ended.then(() => undefined)]);
  if (said === undefined) throw new Error(`${path} could not be locked`);
  return {
    async release() {
      child.kill('SIGKILL');
      await ended;
    },
  };
}
