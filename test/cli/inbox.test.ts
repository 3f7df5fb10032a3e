import assert from 'node:assert/strict';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { createInbox } from '../../src/consume/inbox.ts';
import { temporaryFolder } from '../support/folders.ts';
import { startMysql } from '../support/mysql.ts';
import { startPostgres } from '../support/postgres.ts';
import { requiring } from '../support/requires.ts';
import { runSvc } from '../support/run-svc.ts';

describe('svc inbox', function () {
  this.timeout(60_000);

  it('ddl prints what migrate makes', async () => {
    const { code, stdout } = await runSvc(['inbox', 'ddl', '--dialect', 'sqlite', '--table', 'seen']);
    assert.equal(code, 0);
    const handle = new DatabaseSync(':memory:');
    handle.exec(stdout);
    handle.exec(stdout);
    const inbox = createInbox({ pool: handle, consumer: 'billing', table: 'seen' });
    assert.equal((await inbox.once({ eventId: '1' }, () => {})).handled, true);
    assert.equal((await runSvc(['inbox', 'ddl', '--dialect', 'oracle'])).code, 2);
    assert.equal((await runSvc(['inbox', 'ddl', '--dialect', 'sqlite', '--table', 'a;b'])).code, 2);
  });

  const cleansUp = (urlOf: () => Promise<string>, run: (url: string, sql: string) => Promise<unknown>) =>
    it('cleanup forgets what is older, of the consumers that are named', async () => {
      const url = await urlOf();
      const dialect = url.slice(0, url.indexOf(':')).replace('mariadb', 'mysql');
      const { stdout: ddl } = await runSvc(['inbox', 'ddl', '--dialect', dialect]);
      for (const statement of ddl.split(';').filter((text) => text.trim() !== '')) await run(url, statement);
      const old = { sqlite: '0', mysql: "'2020-01-01'", postgres: "'2020-01-01'" }[dialect];
      for (const [consumer, time] of [
        ['billing', old],
        ['shipping', old],
      ])
        await run(
          url,
          `INSERT INTO svc_inbox_events (consumer, event_id, handled_at) VALUES ('${consumer}', '1', ${time})`,
        );
      const env = { DATABASE_URL: url };
      const args = ['inbox', 'cleanup', '--consumer', 'billing', '--retention-days', '7', '--json'];
      for (const billing of [1, 0]) {
        const { code, stdout, stderr } = await runSvc(args, { env });
        assert.deepEqual([code, stderr], [0, '']);
        assert.deepEqual(JSON.parse(stdout), { forgotten: { billing } });
      }
    });

  const folder = temporaryFolder('inbox-cli');
  describe('in SQLite', () =>
    cleansUp(
      async () => `sqlite:${join(folder, 'a.db')}`,
      async (url, sql) => {
        using handle = new DatabaseSync(url.slice('sqlite:'.length));
        handle.exec(sql);
      },
    ));
  requiring('postgres', 'in PostgreSQL', () =>
    cleansUp(
      async () => (await startPostgres()).freshDatabase(),
      async (url, sql) => (await startPostgres()).query(url, sql),
    ),
  );
  requiring('mysql', 'in MySQL', () =>
    cleansUp(
      async () => (await startMysql()).freshDatabase(),
      async (url, sql) => (await startMysql()).query(url, sql),
    ),
  );

  it('cleanup says in one line what is wrong', async () => {
    const cleanup = ['inbox', 'cleanup', '--consumer', 'billing'];
    const ends = [
      await runSvc(cleanup),
      await runSvc([...cleanup, '--url', 'postgres://user:secret@127.0.0.1:1/x']),
      await runSvc([...cleanup, '--url', `sqlite:${join(folder, 'empty.db')}`]),
      await runSvc([...cleanup, '--url', `sqlite:${join(folder, 'empty.db')}`, '--retention-days', 'x']),
    ];
    assert.deepEqual(
      ends.map(({ code }) => code),
      [2, 1, 1, 2],
    );
    assert.match(ends[0]?.stderr ?? '', /DATABASE_URL/);
    assert.match(ends[1]?.stderr ?? '', /cannot be reached \(ECONNREFUSED\)/);
    assert.match(ends[2]?.stderr ?? '', /svc_inbox_events .*svc inbox ddl/);
    for (const { stderr } of ends) assert.doesNotMatch(stderr, /secret/);
  });
});
