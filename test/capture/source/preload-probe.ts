// Run with --import or --require by load.test.ts: captures the targets in CAPTURE_TARGETS, and tells at exit what happened.

import { writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { isMainThread } from 'node:worker_threads';
import { prepare } from '../../../src/capture/prepare.ts';
import { consoleLogger, useLogger } from '../../../src/observe/logger.ts';

const file = process.env.CAPTURE_MAIN ?? '';
const seen: Record<string, { calls: number; names: readonly string[] | undefined; name: string }> = {};
const targets = (JSON.parse(process.env.CAPTURE_TARGETS ?? '[]') as string[]).map((id) => {
  const [module = '', functionPath = ''] = id.split(/#(?=[^#]*$)/);
  return {
    id,
    module,
    functionPath,
    makePlan(names: readonly string[] | undefined) {
      if (process.env.CAPTURE_REFUSE === id) throw new Error('the expression #x does not fit');
      seen[id] = { calls: 0, names, name: '' };
      return {
        id,
        origin: 'configuration' as const,
        eventType: 'T',
        severity: 'INFO' as const,
        phase: 'AFTER' as const,
        failOnError: false,
        afterCommit: false,
        payload: () => null,
      };
    },
  };
});
useLogger(consoleLogger(process.env.CAPTURE_LOG === 'warn' ? 'warn' : 'off'));
const capture = prepare(targets, {
  baseDir: dirname(file),
});
capture.setOnCall((call) => {
  const entry = seen[call.plan.id];
  if (entry) entry.calls++;
  return undefined;
});
process.on('exit', () => {
  const text = JSON.stringify({ isMainThread, seen, reports: capture.report() });
  writeSync(1, `\nCAPTURE ${text}\n`);
});
