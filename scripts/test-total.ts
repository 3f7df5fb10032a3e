import { closingLine, failureLines, totalCounts } from './test-results.ts';

// What failed in the last `npm test` and in `test:hosts` and the matrix run after it, and the counts of all as one line.
process.stdout.write(`${failureLines()}${closingLine(totalCounts())}\n`);
