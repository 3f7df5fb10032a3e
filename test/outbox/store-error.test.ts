import assert from 'node:assert/strict';
import { unfitTable } from '../../src/outbox/store-error.ts';

describe('a table of another version', () => {
  const message = (found: number) =>
    unfitTable.wrongVersion(found, 3, { dialect: 'postgres', database: 'PostgreSQL', table: 'event_outbox' })
      .message;

  it('says what is to be run on it: of one that svc made, what it lacks', () => {
    assert.match(message(0), /has version 0, older .*"npx --no svc outbox ddl" prints/);
    assert.match(message(1), /has version 1, older .*"npx --no svc outbox ddl --from 1" prints/);
    assert.match(message(2), /--from 2"/);
    assert.match(message(4), /has version 4, newer than this svc \(3\) can use: update svc/);
  });
});
