import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import Cursor from 'pg-cursor';
import { startOwnWork } from '../../../src/ground/lifecycle.ts';
import type { Captures } from '../../contract/captured.ts';
import { requiring } from '../../support/requires.ts';
import { usePg } from './pg-under-test.ts';

requiring('postgres', 'rows that wait for the next statement of pg', function () {
  this.timeout(30_000);
  const tested = usePg();
  const { outside, connect, ids, write } = tested;
  let captures: Captures;
  beforeEach(() => {
    captures = tested.captures;
  });

  /** Calls synchronous functions, whose events nobody waits for. */
  const callMany = (count: number): void => {
    for (let index = 0; index < count; index++) captures.call(`event ${index}`, () => {});
  };
  const ends = async (): Promise<string[]> => [...new Set(Object.values(await captures.ends()))];
  const nothing = (): void => {};
  const outcome = (statement: Promise<unknown>): Promise<unknown> =>
    statement.then(
      () => 'taken',
      (error) => error.code ?? error.message,
    );
  const lose = (client: pg.Client): void =>
    (client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy();

  // 50 are written without waiting for a statement; in a pipeline, each of them is.
  for (const [title, config, count] of [
    ['more than are kept', {}, 50],
    ['in a pipeline', { pipeline: true }, 1],
  ] as const)
    describe(title, () => {
      it('are not undone by a savepoint that comes right behind them', async () => {
        const client = await connect(config);
        await client.query('BEGIN');
        callMany(count);
        await client.query('SAVEPOINT one');
        await client.query('ROLLBACK TO one');
        await client.query('COMMIT');
        assert.deepEqual([(await ids('events')).length, await ends()], [count, ['outbox']]);
      });

      it('are undone by a rollback to a savepoint that comes right behind them', async () => {
        const client = await connect(config);
        await client.query('BEGIN');
        await client.query('SAVEPOINT one');
        callMany(count);
        await client.query('ROLLBACK TO one');
        await client.query('COMMIT');
        assert.deepEqual([await ids('events'), await ends()], [[], ['rolled_back']]);
      });

      it('are not in the next transaction', async () => {
        const client = await connect(config);
        await client.query('BEGIN');
        const slow = client.query('SELECT pg_sleep(0.05)');
        callMany(count);
        const insert = "INSERT INTO orders VALUES ('next')";
        await Promise.all([slow, ...['ROLLBACK', 'BEGIN', insert].map((text) => client.query(text))]);
        await client.query('COMMIT');
        assert.deepEqual([await ids('orders'), await ids('events')], [['next'], []]);
        assert.deepEqual(await ends(), ['rolled_back']);
      });
    });

  it('do not hold up who reads the rows of a query one by one', async () => {
    const client = await connect();
    await client.query('BEGIN');
    const cursor = client.query(new Cursor('SELECT generate_series(1, 60)'));
    for (let index = 0; (await cursor.read(1)).length > 0; index++)
      await captures.call(`event ${index}`, () => Promise.resolve());
    await cursor.close();
    await client.query('COMMIT');
    assert.deepEqual([(await ids('events')).length, await ends()], [60, ['outbox']]);
  });

  it('are refused while the COMMIT is on its way', async () => {
    const client = await connect();
    await client.query('BEGIN');
    await write(client, 'a');
    const commit = client.query('COMMIT');
    const late = captures.call('late', () => Promise.resolve());
    assert.deepEqual([await outcome(late), await outcome(commit)], ['SVC_OUTBOX_COMMITTED', 'taken']);
    assert.deepEqual(await captures.ends(), { a: 'outbox', late: 'refused' });
  });

  it('are not kept by a savepoint that a failed transaction did not make', async () => {
    const client = await connect();
    await client.query('BEGIN');
    await client.query('SAVEPOINT one');
    await client.query('SELECT no_such_column').catch(nothing);
    await captures.call('a', () => Promise.resolve());
    await client.query('SAVEPOINT one').catch(nothing);
    await client.query('ROLLBACK TO one');
    await client.query('COMMIT');
    assert.deepEqual([await ids('events'), await ends()], [[], ['rolled_back']]);
  });

  it('are not forgotten where a COMMIT that was never sent is tried again', async () => {
    const client = await connect({ query_timeout: 200 });
    await client.query('BEGIN');
    const slow = outcome(client.query('SELECT pg_sleep(0.5)'));
    await captures.call('a', () => Promise.resolve());
    assert.equal(await outcome(client.query('COMMIT')), 'Query read timeout');
    await slow;
    await sleep(400);
    assert.equal(await outcome(client.query('COMMIT')), 'SVC_OUTBOX_INSERT');
    assert.deepEqual([await ids('events'), await ends()], [[], ['rolled_back']]);
  });

  it('hold up nothing where the connection is lost', async () => {
    const client = await connect();
    await client.query('BEGIN');
    await write(client, 'a');
    const texts = ['COMMIT', 'BEGIN', "INSERT INTO orders VALUES ('b')"];
    const sent = texts.map((text) => outcome(client.query(text)));
    await captures.call('b', () => Promise.resolve());
    sent.push(outcome(client.query('SELECT 1')), outcome(client.query('COMMIT')));
    lose(client);
    assert.ok(!(await Promise.all(sent)).includes('taken'));
    assert.deepEqual(await captures.ends(), { a: 'outbox', b: 'rolled_back' });
    assert.equal(captures.unconfirmed, 1);
  });

  it('leave one prepared statement behind, however often they are refused', async () => {
    const client = await connect();
    await outside("INSERT INTO events VALUES ('taken')");
    for (let index = 0; index < 5; index++) {
      await client.query('BEGIN');
      await write(client, 'taken');
      assert.equal(await outcome(client.query('COMMIT')), 'SVC_OUTBOX_INSERT');
    }
    const text = "SELECT name FROM pg_prepared_statements WHERE name LIKE 'svc%'";
    assert.equal((await startOwnWork(() => client.query(text))).rowCount, 1);
  });
});
