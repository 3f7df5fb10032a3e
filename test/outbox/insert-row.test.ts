import assert from 'node:assert/strict';
import {
  besideTable,
  type DialectName,
  insertColumns,
  partsOfTable,
  quoteTable,
  rowStatements,
} from '../../src/outbox/insert-row.ts';
import { shardOf } from '../../src/outbox/outbox-row.ts';
import { rowOf } from '../contract/outbox-store.ts';

const insertion = (table: string, dialect: DialectName) => rowStatements(table, dialect).insert(rowOf()).text;

describe('the INSERT of a row', () => {
  it('is one text for each database, and names the schema', () => {
    assert.equal(
      insertion('app.events', 'postgres'),
      'INSERT INTO "app"."events" (event_id, aggregate_type, aggregate_id, event_type, topic, record_key, headers, payload, ' +
        `shard, occurred_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, (timestamptz 'epoch' + $10::bigint * interval '1 millisecond'))`,
    );
    assert.match(insertion('app.events', 'mysql'), /^INSERT INTO `app`\.`events` \(.*MICROSECOND\)\)$/);
    assert.match(insertion('events', 'sqlite'), /^INSERT INTO "events" \(.*, \?\)$/);
  });

  it('has as many parameters as values, none of which tells the time of the storing', () => {
    const row = rowOf();
    const values = rowStatements('t', 'postgres').insert(row).values;
    assert.equal(values.length, insertColumns.length);
    for (const dialect of ['mysql', 'sqlite'] as const)
      assert.equal(insertion('t', dialect).split('?').length - 1, values.length);
    assert.equal(values[insertColumns.indexOf('shard')], shardOf(row));
    assert.equal(values[insertColumns.indexOf('headers')], JSON.stringify(row.headers));
    assert.equal(values[insertColumns.indexOf('payload')], row.payload);
    assert.doesNotMatch(insertion('t', 'postgres'), /created_at|status/);
  });

  it('takes names of letters, digits and _, up to 63 of them, and no more than one schema', () => {
    assert.deepEqual(partsOfTable('a'.repeat(63)), { schema: undefined, name: 'a'.repeat(63) });
    assert.deepEqual(partsOfTable('A_1._b'), { schema: 'A_1', name: '_b' });
    for (const name of ['a'.repeat(64), '', '1a', 'a.b.c', 'a"b', 'a b', '.a', 'a.', 'ä', 'a\n'])
      assert.equal(partsOfTable(name), undefined, name);
    assert.throws(() => quoteTable('postgres', 'a"b'), TypeError);
  });

  it('has tables beside it whose names are no longer, and its own', () => {
    assert.equal(quoteTable('postgres', 'app.events', '_shard'), '"app"."events_shard"');
    assert.equal(besideTable('a'.repeat(57), '_shard'), `${'a'.repeat(57)}_shard`);
    const [one, two] = ['a'.repeat(58), `${'a'.repeat(57)}b`].map((name) => besideTable(name, '_shard'));
    assert.equal(one?.length, 63);
    assert.notEqual(one, two);
  });
});
