import { commandTree } from '../../../src/cli/commands.ts';
import type { CommandEnd } from '../../support/run-svc.ts';

interface Place {
  readonly cwd: string;
  readonly env?: NodeJS.ProcessEnv;
}

/** `svc <args>` in this process. A wrong use rejects. */
export async function svcHere(args: readonly string[], { cwd, env = {} }: Place): Promise<CommandEnd> {
  const before = { cwd: process.cwd, exitCode: process.exitCode };
  const variables = { ...process.env };
  const said = { stdout: '', stderr: '' };
  const streams = (['stdout', 'stderr'] as const).map((name) => {
    const { write } = process[name];
    process[name].write = (text: string | Uint8Array) => {
      said[name] += text;
      return true;
    };
    return () => {
      process[name].write = write;
    };
  });
  process.cwd = () => cwd;
  useVariables({ PATH: variables.PATH, ...env });
  try {
    await commandTree().parseAsync([...args], { from: 'user' });
    return { ...said, code: Number(process.exitCode) };
  } finally {
    for (const restore of streams) restore();
    Object.assign(process, before);
    useVariables(variables);
  }
}

/** In the environment itself, because Node reads TMPDIR from there. */
function useVariables(all: NodeJS.ProcessEnv): void {
  for (const name of Object.keys(process.env)) delete process.env[name];
  Object.assign(process.env, all);
}
