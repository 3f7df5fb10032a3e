// Runs in the applications of hook.test.ts: captures the targets of the environment, and prints at exit what became of them.

import { prepare } from '../../../src/capture/prepare.ts';
import type { CaptureTarget } from '../../../src/capture/target-record.ts';
import { useLogger } from '../../../src/observe/logger.ts';
import { logInto } from '../../support/log.ts';
import { recordingSlot } from '../recording-slot.ts';

const parameters: Record<string, readonly string[] | undefined> = {};
const lines: string[] = [];
const targets = (JSON.parse(process.env.TARGETS ?? '[]') as string[]).map((id): CaptureTarget => {
  const at = id.lastIndexOf('#');
  const [module, functionPath] = [id.slice(0, at), id.slice(at + 1)];
  return {
    id,
    module,
    functionPath,
    makePlan(names) {
      if (functionPath === 'badPlan') throw new Error('the expression does not parse');
      parameters[id] = names;
      return recordingSlot({ id }).plan;
    },
  };
});
useLogger(logInto(lines));
const capture = prepare(targets, { baseDir: process.cwd() });
capture.setOnCall(() => undefined);
process.on('exit', () => {
  const reports = capture.report();
  const calls = Object.fromEntries(
    reports.filter((each) => each.calls > 0).map((each) => [each.id, each.calls]),
  );
  const told = Object.fromEntries(reports.map(({ id, state, reason }) => [id, reason ?? state]));
  process.stdout.write(`\n${JSON.stringify({ calls, told, parameters, lines })}\n`);
});
