import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { number, replaceSection } from '../report.ts';
import { outboxDatabases } from './outbox-databases.ts';
import { outboxFaults } from './outbox-faults.ts';
import type { OutboxFaultResult } from './run-outbox-fault.ts';

/** The last green run of each fault, by database and client. */
export const accountsFile: string = join(import.meta.dirname, 'accounts.json');

const text = `Two applications, each with a relay, store orders in transactions and roll back a fifth of them. After each fault the test compares
tables and topic row by row, in both directions. Each committed order has one row in the outbox and one event in the topic. An order that was rolled back
has neither. No row is FAILED, and the events of an aggregate are in the order of their commits.

*Cut off*: transactions that the fault kept from their COMMIT. *Backlog*: the most rows that waited at once. *Drained*: time from the end of
the load to the last acknowledged row. On two shared cores: the counts are exact, the times are those of a busy machine. Duplicates are rows
that a relay sent but could not mark, because it was killed, frozen or without its database.

In the hour without a fault, the two applications used 260 and 259 MB of memory after six minutes. At the end they used 266 and 270 MB.
\`npm run test:faults -- --database mariadb --client platformatic --outage 600\` selects runs; \`accounts.json\` in \`test/faults/outbox\` holds the
last green run of each.`;

/** Adds results to the accounts, and writes the section of the page anew from all of them. */
export function writeOutboxDocs(page: string, results: readonly OutboxFaultResult[]): void {
  const accounts = new Map<string, OutboxFaultResult>();
  for (const result of [...readAccounts(), ...results])
    accounts.set(`${result.database} ${result.client} ${result.fault}`, result);
  const all = [...accounts].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, result]) => result);
  writeFileSync(accountsFile, `${JSON.stringify(all, null, 2)}\n`);
  replaceSection(page, 'The outbox', outboxSection(all));
}

export function readAccounts(): readonly OutboxFaultResult[] {
  return existsSync(accountsFile) ? JSON.parse(readFileSync(accountsFile, 'utf8')) : [];
}

export function outboxSection(all: readonly OutboxFaultResult[]): string {
  const clients = [...new Set(all.map(({ client }) => client))].sort();
  const tables = outboxDatabases.flatMap(({ name, title }) =>
    clients.flatMap((client) => {
      const own = all.filter((result) => result.database === name && result.client === client);
      return own.length === 0 ? [] : [`### ${title}, with ${client}`, table(own)];
    }),
  );
  return [text, ...tables].join('\n\n');
}

function table(results: readonly OutboxFaultResult[]): string {
  const rows = outboxFaults.flatMap(({ name }) => {
    const result = results.find(({ fault }) => fault === name);
    if (result === undefined) return [];
    const { title, committed, rolledBack, cutOff, delivered, duplicates, failed, backlog, drainMs } = result;
    const counts = [committed, rolledBack, cutOff, delivered, duplicates, failed, backlog];
    const cells = counts.map((count) => number.format(count));
    return `| ${[title, ...cells, `${(drainMs / 1000).toFixed(1)} s`].join(' | ')} |`;
  });
  return [
    '| Fault | Committed | Rolled back | Cut off | Delivered | Duplicates | FAILED | Backlog | Drained |',
    '|---|--:|--:|--:|--:|--:|--:|--:|--:|',
    ...rows,
  ].join('\n');
}
