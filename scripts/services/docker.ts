import { join } from 'node:path';
import { checkoutFolder } from './cache.ts';
import { type CommandResult, lastLines, runCommand } from './commands.ts';
import { Unavailable } from './unavailable.ts';

const composeFile = join(checkoutFolder, 'ops', 'compose.yaml');

/** The command line of Docker Compose for one of our instances. */
export function composeCommand(
  project: string,
  args: readonly string[],
): { program: string; args: string[] } {
  return { program: 'docker', args: ['compose', '-p', project, '-f', composeFile, ...args] };
}

/** Runs Docker Compose to its end; throws with its last lines when it fails. */
export async function compose(
  project: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  timeoutMs = 60_000,
): Promise<CommandResult> {
  const command = composeCommand(project, args);
  const result = await runCommand(command.program, command.args, {
    timeoutMs,
    env: { ...process.env, ...env },
  });
  if (result.code !== 0) {
    throw new Error(`docker compose ${args[0]} failed (${result.code}):\n${lastLines(result.stderr, 6)}`);
  }
  return result;
}

/** Arguments that end the containers at once and remove them with their volumes. */
export const COMPOSE_DOWN: readonly string[] = ['down', '--volumes', '--timeout', '0'];

export async function composeDown(project: string): Promise<void> {
  await compose(project, COMPOSE_DOWN);
}

/** Throws {@link Unavailable} unless a Docker daemon answers and Compose is there. A docker program alone is not enough. */
export async function requireDocker(): Promise<void> {
  const how = 'start Docker (with its compose plugin)';
  const daemon = await runCommand('docker', ['version', '--format', '{{.Server.Version}}'], {
    timeoutMs: 10_000,
  });
  if (daemon.code === 127) throw new Unavailable('there is no Docker', how);
  if (daemon.code !== 0) throw new Unavailable('the Docker daemon does not answer', how);
  const plugin = await runCommand('docker', ['compose', 'version'], { timeoutMs: 10_000 });
  if (plugin.code !== 0) throw new Unavailable('Docker has no compose plugin', how);
}
