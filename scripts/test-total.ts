import { closingLine, failureLines, totalCounts } from './test-results.ts';

// What failed in the last `npm test` and in the matrix run after it, and the counts of both as one line.
process.stdout.write(`${failureLines()}${closingLine(totalCounts())}\n`);
