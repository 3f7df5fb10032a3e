import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import type { FaultResult } from './run-fault.ts';

const intro = `<!-- The tables are made by \`npm run test:faults -- --write-docs\`. -->
# What svc does when things fail

For users: [what happens when something fails](../recovery.md#what-happens-when-something-fails).

\`npm run test:faults\` runs an application with the packed svc as a preload, under load with 60 keys and 6 partitions. The Kafka cluster
has three nodes (KRaft, replication factor 3, \`min.insync.replicas=2\`; a broker counts as dead after 3 s). The test applies one fault
after another and checks the accounts after each:

- Calls = published + dead letters + backup + refused + lost. Each event is where the ledger says: Kafka's own Java consumer and the
  files confirm it. No event is refused, and none is lost unless no tier has room.
- The events of a key are in the topic in the order of their calls, whether sent directly or through the local backup. The first
  appearance of an event counts. Dead letters are out of the order, and so are events that S3 took before the files.
- After the drain, the events of the backup are in the topic too.

Error codes that a real cluster does not give on demand come from librdkafka's mock cluster.

| Column | Meaning |
|---|---|
| Duplicates | records beyond the first of their event. On the real cluster only events of the backup or the dead letter topic can be there twice, or the run fails. The mock cluster does not recognize repeated batches |
| Longest pause | longest time in which a partition got no new record under load, including the start of killed nodes |
| Longest wait | longest time that a caller waited with \`svc.broker.async-mode: false\`: at most \`svc.broker.max-wait-ms\` (2 s), plus the delay of a busy machine |

svc follows a moved leader within about a second. It leaves a broker that hangs with open connections as soon as the cluster has
chosen other leaders, without waiting for \`svc.broker.request-timeout-ms\`.
`;

export const number = new Intl.NumberFormat('en-US');

/** Replaces the table of the client in the page, which is made where it is not there. */
export function writeDocs(file: string, client: string, results: readonly FaultResult[], runs: number): void {
  replaceSection(file, client, table(results, runs));
}

/** Puts the content under the title, and leaves the rest of the page as it is. */
export function replaceSection(file: string, title: string, content: string): void {
  const old = existsSync(file) ? readFileSync(file, 'utf8') : '';
  const sections = new Map(
    old
      .split(/^## /m)
      .slice(1)
      .map((section): [string, string] => {
        const [name = '', ...body] = section.split('\n');
        return [name, body.join('\n').trim()];
      }),
  );
  sections.set(title, content);
  const text = [...sections].sort().map(([name, body]) => `## ${name}\n\n${body}\n`);
  writeFileSync(file, [intro, ...text].join('\n'));
}

function table(results: readonly FaultResult[], runs: number): string {
  const rows = results.map(({ title, ledger, duplicates, longestPauseMs, longestWaitMs }) => {
    const { calls, published, dlq, backup, lost } = ledger;
    const counts = [calls, published, dlq, backup, lost, duplicates].map((count) => number.format(count));
    const pause = longestPauseMs === null ? '' : `${(longestPauseMs / 1000).toFixed(1)} s`;
    const wait = `${(longestWaitMs / 1000).toFixed(1)} s`;
    return `| ${[title, ...counts, pause, wait].join(' | ')} |`;
  });
  const often = runs === 1 ? 'One run' : `The last of ${runs} runs, all of them green`;
  return [
    `${often}, on two shared cores: the counts are exact, the times are those of a busy machine.`,
    '',
    '| Fault | Events | Published | Dead letters | Backup | Lost | Duplicates | Longest pause | Longest wait |',
    '|---|--:|--:|--:|--:|--:|--:|--:|--:|',
    ...rows,
  ].join('\n');
}
