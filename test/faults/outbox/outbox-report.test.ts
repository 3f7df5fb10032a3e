import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { outboxDatabases } from './outbox-databases.ts';
import { outboxFaults } from './outbox-faults.ts';
import { outboxSection, readAccounts } from './outbox-report.ts';

const page = join(resolve(import.meta.dirname, '../../..'), 'docs', 'internals', 'faults.md');

describe('tables of the outbox faults', () => {
  const accounts = readAccounts();

  it('are those of the accounts', () => {
    assert.ok(readFileSync(page, 'utf8').includes(`## The outbox\n\n${outboxSection(accounts)}\n`));
  });

  it('are of green runs, of each fault on each database that has it', () => {
    for (const { problems, failed, committed, delivered } of accounts)
      assert.deepEqual([problems, failed, delivered], [[], 0, committed]);
    const expected = outboxDatabases.flatMap(({ name }) =>
      outboxFaults
        .filter(({ databases, onlyWhenNamed }) =>
          onlyWhenNamed ? name === 'postgres' : databases?.includes(name) !== false,
        )
        .map((fault) => `${name} ${fault.name}`),
    );
    const found = new Set(accounts.map(({ database, fault }) => `${database} ${fault}`));
    assert.deepEqual([...found].sort(), expected.sort());
  });
});
