import { appendFileSync } from 'node:fs';
import { relative } from 'node:path';
import mocha from 'mocha';

/** Of longer messages the beginning and the end: what a process wrote last says why it ended. */
const LONGEST_HALF = 300;
const LONGEST_END_MS = 60_000;

/**
 * Mocha's spec reporter, which also leaves its counts in the file that `SVC_TEST_COUNTS` names, one JSON line a run, and what
 * failed in the one of `SVC_TEST_FAILURES`, one JSON line a failure: `run` (that of `SVC_TEST_RUN`), `title`, `error`, and `again`
 * where it was tried once more. The seconds that each file of tests took go to the file of `SVC_TEST_TIMES`.
 */
class CountingReporter extends mocha.reporters.Spec {
  constructor(runner: mocha.Runner, options?: mocha.MochaOptions) {
    super(runner, options);
    const { SVC_TEST_COUNTS: countsFile, SVC_TEST_FAILURES: failuresFile, SVC_TEST_RUN: run } = process.env;
    const { SVC_TEST_TIMES: timesFile } = process.env;
    const append = (file: string | undefined, line: object): void => {
      if (file) appendFileSync(file, `${JSON.stringify(line)}\n`);
    };
    const failed = (test: mocha.Runnable, error: Error, again?: true): void =>
      append(failuresFile, { run, title: test.fullTitle(), error: shortened(error.message), again });
    runner.on('fail', failed);
    runner.on('retry', (test, error: Error) => failed(test, error, true));
    const times = new Map<string, number>();
    let lastEnd = Date.now();
    const ended = ({ file = '' }: mocha.Runnable): void => {
      const now = Date.now();
      times.set(file, (times.get(file) ?? 0) + now - lastEnd);
      lastEnd = now;
    };
    runner.on('test end', ended).on('hook end', ended);
    runner.once('end', () => {
      for (const [file, ms] of times)
        append(timesFile, { run, file: relative(process.cwd(), file), seconds: Math.round(ms / 1000) });
      const { passes, failures, pending } = this.stats;
      append(countsFile, { passed: passes, failed: failures, skipped: pending });
      // A test that failed may leave a server open, and the run would never end.
      setTimeout(() => {
        const open = process.getActiveResourcesInfo().join(', ');
        console.error(`mocha still runs a minute after its last test: ${open}`);
        process.exit(1);
      }, LONGEST_END_MS).unref();
    });
  }
}

function shortened(message: string): string {
  const line = message.replace(/\s+/g, ' ');
  if (line.length <= 2 * LONGEST_HALF) return line;
  return `${line.slice(0, LONGEST_HALF)} … ${line.slice(-LONGEST_HALF)}`;
}

export default CountingReporter;
