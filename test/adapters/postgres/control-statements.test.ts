import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';
import type pg from 'pg';
import { requiring } from '../../support/requires.ts';
import { usePg } from './pg-under-test.ts';

/** What no ORM sends, and people do. */
const commits = [
  '/* a /* b */ */ COMMIT',
  '/* /* /* a */ */ ; */COMMIT/* b */',
  '/* a /* b */ ; */ SELECT 1; COMMIT',
  ';COMMIT',
  '; ;\n-- a\n;COMMIT;',
  'COMMIT;--',
  'COMMIT-- ;',
  'eNd',
  'END/* a */WORK',
  'SELECT 1;;END',
  'COMMIT/* a */AND/* b */CHAIN',
  'COMMIT AND CHAIN; ROLLBACK',
  'COMMIT; BEGIN',
  'SELECT $é$; ROLLBACK;$é$; COMMIT',
  'SELECT 1 AS a$b, $$; ROLLBACK$$; COMMIT',
];
const rollbacks = [
  '/* a /* b */ */ ROLLBACK',
  ';ABORT',
  'abort/* a */work;--',
  'ROLLBACK/* a */AND CHAIN',
  'ROLLBACK; BEGIN',
  'ROLLBACK; BEGIN; SELECT 1',
  'SELECT 1; ROLLBACK; START TRANSACTION',
];
const savepoints = [
  ['SAVEPOINT é', 'ROLLBACK TO é'],
  ['SAVEPOINT/* a */b', 'ROLLBACK /* to */ TO/* a */b'],
  ['SAVEPOINT -- a\n c', 'ROLLBACK\n-- x\nTO SAVEPOINT\n-- y\nc'],
  ['SAVEPOINT "a b"', 'ROLLBACK TO"a b"'],
  ['SAVEPOINT U&"d\\0061"', 'ROLLBACK TO SAVEPOINT U&"d\\0061"'],
  ['SAVEPOINT a/* /* */ */', '/* /* */ */ROLLBACK TO SAVEPOINT a'],
  ['SAVEPOINT z', ';ROLLBACK TO z;'],
] as const;

requiring('postgres', 'statements of transactions, however they are written, through pg', function () {
  this.timeout(30_000);
  const tested = usePg();
  const { connect, ids, write, outside } = tested;

  /** Each by itself; those are told that are not followed. */
  async function each<T>(texts: readonly T[], expected: Found, work: (text: T) => Promise<unknown>) {
    const wrong: Record<string, unknown> = {};
    for (const text of texts) {
      const captures = tested.renew();
      await outside('TRUNCATE orders, events');
      const error: unknown = await work(text).then(
        () => undefined,
        ({ code, message }) => code ?? message,
      );
      const found = { orders: await ids('orders'), events: await ids('events'), ends: await captures.ends() };
      if (error !== undefined || !isDeepStrictEqual(found, expected))
        wrong[JSON.stringify(text)] = error ?? found;
    }
    assert.deepEqual(wrong, {});
  }

  const committed: Found = { orders: ['a'], events: ['a'], ends: { a: 'outbox' } };
  const functionThatCommits = (client: pg.Client, statement: unknown): Promise<unknown> =>
    tested.captures.call('a', async () => {
      await client.query('BEGIN');
      await client.query("INSERT INTO orders VALUES ('a')");
      await client.query(statement as string);
    });

  it('COMMIT', () =>
    each(commits, committed, async (text) => {
      const client = await connect();
      await functionThatCommits(client, text);
      await client.query('ROLLBACK');
    }));

  it('COMMIT that was prepared by name, of which only the name is sent', () =>
    each([{ name: 'done' }], committed, async (named) => {
      const client = await connect();
      await client.query({ ...named, text: 'COMMIT' });
      await functionThatCommits(client, named);
    }));

  it('ROLLBACK', () =>
    each(
      rollbacks,
      { orders: ['b'], events: ['b'], ends: { a: 'rolled_back', b: 'outbox' } },
      async (text) => {
        const client = await connect();
        await client.query('BEGIN');
        await write(client, 'a');
        await client.query(text);
        await client.query('BEGIN');
        await write(client, 'b');
        await client.query('COMMIT');
      },
    ));

  it('ROLLBACK TO', () =>
    each(
      savepoints,
      { orders: ['a', 'c'], events: ['a', 'c'], ends: { a: 'outbox', b: 'rolled_back', c: 'outbox' } },
      async ([set, back]) => {
        const client = await connect();
        await client.query('BEGIN');
        await write(client, 'a');
        await client.query(set);
        await write(client, 'b');
        await client.query(back);
        await write(client, 'c');
        await client.query('COMMIT');
      },
    ));
});

interface Found {
  readonly orders: readonly string[];
  readonly events: readonly string[];
  readonly ends: Readonly<Record<string, string>>;
}
