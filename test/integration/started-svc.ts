import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { loadConfig } from '../../src/config/read/load.ts';
import type { Logger } from '../../src/observe/logger.ts';
import { type Service, start } from '../../src/start/start.ts';
import { forgetMarks } from '../protect/forget-marks.ts';
import { temporaryFolder } from '../support/folders.ts';
import { useLoggerInAll } from '../support/log.ts';

/** svc as `start` makes it, with a folder of its own and the warnings and errors that it writes. */
export interface StartedSvc {
  readonly service: Service;
  readonly folder: string;
  readonly lines: readonly string[];
  readonly info: readonly string[];
  /** What is in the local backup, in files or in the journal. */
  backup(): { eventId: string; payload: unknown }[];
  /** Of its management server, which listens soon after the start. */
  address(): Promise<string>;
  end(): Promise<void>;
}

export interface StartOptions {
  readonly logger?: Logger;
  readonly retry?: object;
  readonly outbox?: object;
  readonly serde?: object;
  readonly pii?: object;
  readonly targets?: readonly object[];
  /** Of the management server. */
  readonly token?: string;
}

/** Topic `orders`, no retries, and the local backup in the folder, unless `broker` says otherwise. */
export function startSvc(broker: object, options: StartOptions = {}): StartedSvc {
  forgetMarks();
  const folder = temporaryFolder('started');
  const lines: string[] = [];
  const info: string[] = [];
  const say =
    (level: string): Logger['info'] =>
    (message) =>
      void lines.push(`${level}: ${message}`);
  const { config, problems } = loadConfig({
    env: {},
    cwd: folder,
    code: {
      svc: {
        broker: { topic: 'orders', dlqBackupPath: join(folder, 'backup'), ...broker },
        retry: options.retry ?? { enabled: false },
        ...(options.serde && { serde: options.serde }),
        ...(options.pii && { pii: options.pii }),
        ...(options.targets && { targets: options.targets }),
        ...(options.outbox && { outbox: { enabled: true, ...options.outbox } }),
      },
      management: { server: { port: 0, ...(options.token && { token: options.token }) } },
    },
  });
  assert.deepEqual(problems, []);
  const own: Logger = {
    debug() {},
    info: (message) => void info.push(message),
    warn: say('warn'),
    error: say('error'),
  };
  useLoggerInAll(options.logger ?? own);
  const service = start(config);
  return {
    service,
    folder,
    lines,
    info,
    backup: () =>
      readdirSync(join(folder, 'backup'))
        .filter((name) => name.endsWith('.json') || name.includes('.ndjson'))
        .flatMap((name) => readFileSync(join(folder, 'backup', name), 'utf8').split(/\n(?=.)/))
        .map((text) => JSON.parse(text))
        .map((line) => (typeof line.value === 'string' ? JSON.parse(line.value) : line)),
    async address() {
      for (const endMs = performance.now() + 10_000; performance.now() < endMs; await sleep(20)) {
        const found = /management on (http:\S+)\/metrics/.exec(info.join('\n'))?.[1];
        if (found !== undefined) return found;
      }
      throw new Error(`no management server: ${[...info, ...lines].join('\n')}`);
    },
    async end() {
      await service.stop(5_000);
    },
  };
}
