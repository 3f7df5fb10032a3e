import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import type { FaultResult } from './run-fault.ts';

const intro = `<!-- The tables are made by \`npm run test:faults -- --write-docs\`. -->
# What svc does when things fail

\`npm run test:faults\` runs an application with the packed svc as a preload, under load with 60 keys and 6 partitions, on a
real cluster of three Kafka nodes (KRaft, replication factor 3, \`min.insync.replicas=2\`, a broker is taken for dead after
3 s), does one fault after the other to it, and settles the accounts after each:

- calls = published + dead letters + backup + refused + lost, and every event is where the ledger says, read back by Kafka's
  own Java consumer and from the files; nothing is refused, nothing lost, but where no place is left;
- the events of a key stand in its topic in the order of their calls, all of them, whether they went there straight or by way
  of the local backup. The first appearance of an event counts; dead letters are out of the order, also those that only the backup took. What S3 takes before the
  files is not in the topic until it is restored: there the order is that of all others;
- what the backup took is in the topic as well when it has drained.

Error codes that a real cluster does not give on demand come from librdkafka's mock cluster. *Duplicates* are records of the
topic beyond the first of their event, and consumers tell them by \`eventId\`. A batch that is sent again is stored once: on the real
cluster only events can be twice that are in the backup or the dead letter topic as well, or a run fails. The mock cluster does not know a batch again.
*Longest pause* is the longest time in which a partition got no new record while the load was on, the start of killed nodes
among it. A leader that moves is followed within about a second; a broker that hangs without closing its connections is
left as soon as the cluster has chosen other leaders, not after \`svc.broker.request-timeout-ms\`. *Longest wait* is the
longest that a caller waited for its event, with \`svc.broker.async-mode: false\`: \`svc.broker.max-wait-ms\`, 2 s, at most, and
what a busy machine takes on top.
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
