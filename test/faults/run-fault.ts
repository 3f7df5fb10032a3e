import { randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { settleAccounts } from './account.ts';
import type { Fault } from './fault.ts';
import { type Ledger, startLoadApp } from './load-app.ts';
import { prepareStage, type StageParts } from './stage.ts';
import { storedEvents, waitingCount } from './stored-events.ts';

/** What one fault has come to, as the table and `--json` show it. */
export interface FaultResult {
  readonly fault: string;
  readonly title: string;
  readonly client: string;
  readonly problems: readonly string[];
  readonly ledger: Ledger;
  readonly duplicates: number;
  /** The longest that a caller waited for its event; `svc.broker.max-wait-ms` and what the machine takes. */
  readonly longestWaitMs: number;
  /** `null` on the mock cluster, which does not tell when it got a record. */
  readonly longestPauseMs: number | null;
  readonly tookMs: number;
}

export interface RunOptions extends StageParts {
  /** As in `svc.broker.client`. */
  readonly client: string;
  /** Folder of an application in which svc is installed. */
  readonly application: string;
  readonly outageMs: number;
  say(line: string): void;
}

/** How long the first event may take. */
const startMs = 30_000;
const warmUpMs = 2_000;
const afterMs = 2_000;
const settleMs = 120_000;
const drainMs = 90_000;
const usualRate = 1_000;
/** `svc.broker.max-wait-ms`, and a second of a busy machine. */
const longestWaitAllowedMs = 3_000;

/** Starts an application under load, does one fault to its cluster, and settles the accounts when all is quiet again. */
export async function runFault(fault: Fault, options: RunOptions): Promise<FaultResult> {
  const started = Date.now();
  const { say, client } = options;
  const topic = `${fault.name}-${randomBytes(3).toString('hex')}`;
  const dlqTopic = `${topic}.dlq`;
  const folder = join(options.application, 'runs', topic);
  const stage = await prepareStage(fault, { ...options, topic, dlqTopic, folder });
  try {
    const app = await startLoadApp({
      folder,
      broker: { client, topic, 'dlq-topic': dlqTopic, ...stage.broker },
      env: stage.env,
      mounts: stage.mounts,
    });
    try {
      const loadFrom = Date.now();
      const rate = fault.rate ?? usualRate;
      app.load(rate);
      // The client has been loaded and has its connections.
      await app.published(startMs);
      await sleep(warmUpMs);
      const calmFrom = Date.now();
      await stage.run({ topic, app, say, outageMs: options.outageMs });
      await sleep(afterMs);
      const { numbers, longestWaitMs } = await app.stop();
      const loadUntil = Date.now();
      const expected = ((loadUntil - calmFrom) / 1_000) * rate;
      const ledger = await app.settled(settleMs);
      const backupFolder = stage.backupFolder(app.pid);
      await drained(backupFolder, say);
      // Looked at before the end: a file system of its own ends with the application.
      const local = storedEvents(backupFolder);
      const end = await app.end();
      const records = await stage.read();
      const account = settleAccounts({
        ...{ numbers, ledger, loadFrom, loadUntil, drained: local },
        topic: records.filter((record) => record.topic === topic),
        dlq: records.filter((record) => record.topic === dlqTopic),
        backup: [...local, ...stage.stored()],
      });
      const problems = [...account.problems];
      if (ledger.calls < expected / 2) problems.push(`too little load: ${ledger.calls} calls`);
      if (ledger.lost > 0 && !stage.losesEvents) problems.push(`${ledger.lost} events lost`);
      if (stage.losesEvents && ledger.lost === 0) problems.push('nothing was lost: the fault shows nothing');
      // The mock cluster does not know a batch again.
      if (fault.on === 'cluster' && account.ownDuplicates > 0)
        problems.push(`${account.ownDuplicates} events twice in the topic that went nowhere else`);
      if (longestWaitMs > longestWaitAllowedMs)
        problems.push(`a caller waited for ${Math.round(longestWaitMs)} ms`);
      if (fault.shows?.(ledger) === false) problems.push('no event met the fault');
      if (stage.losesEvents && !/event lost/i.test(app.log())) problems.push('a loss without an alert');
      if (end.code !== 143 && end.signal !== 'SIGTERM' && end.code !== 0)
        problems.push(`the application ended with ${end.code ?? end.signal}`);
      if (problems.length === 0) rmSync(folder, { recursive: true, force: true });
      else say(`its configuration, log and backup: ${folder}`);
      return {
        ...{ fault: fault.name, title: fault.title, client, problems, ledger },
        duplicates: account.duplicates,
        longestWaitMs,
        longestPauseMs: stage.knowsAppendTime ? account.longestPauseMs : null,
        tookMs: Date.now() - started,
      };
    } finally {
      app.kill();
    }
  } finally {
    await stage.close();
  }
}

async function drained(folder: string, say: (line: string) => void): Promise<void> {
  const end = Date.now() + drainMs;
  let told = Date.now();
  for (let left = waitingCount(folder); left > 0; left = waitingCount(folder)) {
    if (Date.now() > end) throw new Error(`${left} files wait in the backup after ${drainMs} ms`);
    if (Date.now() - told > 10_000) {
      say(`${left} files wait in the backup`);
      told = Date.now();
    }
    await sleep(500);
  }
}
