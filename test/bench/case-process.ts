import { type ChildProcess, fork } from 'node:child_process';
import { join } from 'node:path';
import type { CaseSetup, Order, Run } from './throughput-case.ts';

/** One case of the throughput bench, in its own process. */
export interface CaseProcess {
  run(order: Order): Promise<Run>;
  end(): Promise<void>;
}

/** `profile`: a folder for a CPU profile of the process. */
export async function startCase(setup: CaseSetup, profile: string | undefined): Promise<CaseProcess> {
  const name = `${setup.kind}-${setup.client}.cpuprofile`;
  const execArgv =
    profile === undefined ? [] : ['--cpu-prof', '--cpu-prof-dir', profile, '--cpu-prof-name', name];
  const child = fork(join(import.meta.dirname, 'throughput-case.ts'), [JSON.stringify(setup)], { execArgv });
  await answer(child);
  return {
    async run(order) {
      child.send(order);
      return (await answer(child)) as Run;
    },
    async end() {
      if (child.exitCode !== null) return;
      const ended = new Promise((resolve) => child.once('exit', resolve));
      child.send('end');
      await ended;
    },
  };
}

function answer(child: ChildProcess): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const onExit = (code: number | null): void => reject(new Error(`a case of the bench ended with ${code}`));
    child.once('exit', onExit);
    child.once('message', (message) => {
      child.off('exit', onExit);
      resolve(message);
    });
  });
}
