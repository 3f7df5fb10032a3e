import { closingLine, totalCounts } from './test-results.ts';

// The counts of the last `npm test` and of the matrix run after it, as one line.
process.stdout.write(`${closingLine(totalCounts())}\n`);
