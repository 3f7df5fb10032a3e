import { appendFileSync } from 'node:fs';
import mocha from 'mocha';

/** Mocha's spec reporter, which also leaves its counts in the file that `SVC_TEST_COUNTS` names, one JSON line a run. */
class CountingReporter extends mocha.reporters.Spec {
  constructor(runner: mocha.Runner, options?: mocha.MochaOptions) {
    super(runner, options);
    const file = process.env.SVC_TEST_COUNTS;
    runner.once('end', () => {
      const { passes, failures, pending } = this.stats;
      if (file)
        appendFileSync(file, `${JSON.stringify({ passed: passes, failed: failures, skipped: pending })}\n`);
    });
  }
}

export default CountingReporter;
