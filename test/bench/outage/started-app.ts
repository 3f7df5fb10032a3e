import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AppSetup } from '../../faults/comeback/app.ts';
import type { AppState } from './app.ts';

/** The application of the bench, in a process of its own. */
export interface StartedApp {
  /** All that it has said of itself, four times a second. */
  readonly states: readonly AppState[];
  latest(): AppState;
  until(isSo: (state: AppState) => boolean, limitMs: number): Promise<void>;
  /** Ends it in order, and gives its last word. */
  end(): Promise<AppState>;
  kill(): void;
}

/** @param profile a folder for a CPU profile of the process */
export async function startApp(setup: AppSetup, profile: string | undefined): Promise<StartedApp> {
  const execArgv = profile === undefined ? [] : ['--cpu-prof', '--cpu-prof-dir', profile];
  const app = fork(join(import.meta.dirname, 'app.ts'), [JSON.stringify(setup)], { execArgv });
  const states: AppState[] = [];
  app.on('message', (state: AppState) => states.push(state));
  await once(app, 'message');
  const latest = (): AppState => {
    if (app.exitCode !== null || app.signalCode !== null) throw new Error('the application has ended');
    return states.at(-1) as AppState;
  };
  return {
    states,
    latest,
    async until(isSo, limitMs) {
      for (const endMs = Date.now() + limitMs; !isSo(latest()); await sleep(50))
        if (Date.now() > endMs) throw new Error(`the application is not there after ${limitMs} ms`);
    },
    async end() {
      const ended = once(app, 'exit');
      app.send('end');
      await ended;
      return states.at(-1) as AppState;
    },
    kill: () => void app.kill('SIGKILL'),
  };
}
