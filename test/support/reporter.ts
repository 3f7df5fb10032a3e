import { appendFileSync } from 'node:fs';
import mocha from 'mocha';

const LONGEST_MESSAGE = 300;

/**
 * Mocha's spec reporter, which also leaves its counts in the file that `SVC_TEST_COUNTS` names, one JSON line a run, and what
 * failed in the one of `SVC_TEST_FAILURES`, one JSON line a failure: `run` (that of `SVC_TEST_RUN`), `title`, `error`.
 */
class CountingReporter extends mocha.reporters.Spec {
  constructor(runner: mocha.Runner, options?: mocha.MochaOptions) {
    super(runner, options);
    const { SVC_TEST_COUNTS: countsFile, SVC_TEST_FAILURES: failuresFile, SVC_TEST_RUN: run } = process.env;
    const append = (file: string | undefined, line: object): void => {
      if (file) appendFileSync(file, `${JSON.stringify(line)}\n`);
    };
    runner.on('fail', (test, error: Error) => {
      const message = error.message.replace(/\s+/g, ' ').slice(0, LONGEST_MESSAGE);
      append(failuresFile, { run, title: test.fullTitle(), error: message });
    });
    runner.once('end', () => {
      const { passes, failures, pending } = this.stats;
      append(countsFile, { passed: passes, failed: failures, skipped: pending });
    });
  }
}

export default CountingReporter;
