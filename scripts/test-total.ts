import { closingLine, failureLines, slowestLines, totalCounts } from './test-results.ts';

// What took longest, what failed in the last `npm test` and in `test:hosts` and the matrix run after it, and the counts of all as one line.
process.stdout.write(`${slowestLines(30)}${failureLines()}${closingLine(totalCounts())}\n`);
