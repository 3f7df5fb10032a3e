import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AppSaid, AppSetup } from './app.ts';

/** An application that publishes 50 events a second, and all that it says of them. */
export interface MeasuredApp {
  readonly said: readonly AppSaid[];
  /** When the first event since then was published. */
  publishedAt(sinceMs: number): number | undefined;
  /** Looks again and again, for so long at most. */
  until(isSo: () => unknown, limitMs: number): Promise<void>;
  end(): Promise<void>;
}

export function startMeasuredApp(client: string, brokers: readonly string[], topic: string): MeasuredApp {
  const folder = mkdtempSync(join(tmpdir(), 'svc-comeback-'));
  const setup: AppSetup = { client, brokers, topic, perSecond: 50, backupFolder: join(folder, 'backup') };
  const app = fork(join(import.meta.dirname, 'app.ts'), [JSON.stringify(setup)]);
  const said: AppSaid[] = [];
  app.on('message', (each: AppSaid) => said.push(each));
  return {
    said,
    publishedAt: (sinceMs) =>
      said.find(({ at, what, text }) => what === 'outcome' && text === 'published' && at >= sinceMs)?.at,
    async until(isSo, limitMs) {
      for (const end = Date.now() + limitMs; !isSo() && Date.now() < end; ) await sleep(20);
    },
    async end() {
      app.disconnect();
      await Promise.race([once(app, 'exit'), sleep(5_000)]);
      app.kill('SIGKILL');
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
