import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { openOutboxStore } from '../../src/start/adapters.ts';
import { outboxRow } from '../cli/outbox-folder.ts';
import { hostEnvironment } from '../e2e/support/run-app.ts';
import type { OwnDatabase } from '../support/database.ts';
import { temporaryFolder } from '../support/folders.ts';
import { startOwnMariadb } from '../support/mariadb.ts';
import { startOwnMysql } from '../support/mysql.ts';
import { startOwnPostgres } from '../support/postgres.ts';
import { requiring } from '../support/requires.ts';
import { until as untilSo } from '../support/until.ts';

const main = resolve(import.meta.dirname, '../../src/cli/main.ts');
const table = 'svc_outbox_events';

interface Case {
  readonly needs: 'own-postgres' | 'own-mariadb' | 'own-mysql';
  readonly title: string;
  start(): Promise<OwnDatabase>;
  toReadOnly(server: OwnDatabase, url: string): Promise<unknown>;
  toWritable(server: OwnDatabase, url: string): Promise<unknown>;
}

const nameOf = (url: string): string => new URL(url).pathname.slice(1);
const globally = (value: string) => (server: OwnDatabase) =>
  server.query(server.url, `SET GLOBAL read_only = ${value}`);
const byDefault = (value: string) => (server: OwnDatabase, url: string) =>
  server.query(server.url, `ALTER DATABASE ${nameOf(url)} SET default_transaction_read_only = ${value}`);

const cases: readonly Case[] = [
  {
    needs: 'own-postgres',
    title: 'PostgreSQL with default_transaction_read_only',
    start: startOwnPostgres,
    toReadOnly: byDefault('on'),
    toWritable: byDefault('off'),
  },
  {
    needs: 'own-postgres',
    title: 'a physical standby of PostgreSQL, until it is promoted',
    start: startOwnPostgres,
    async toReadOnly(server) {
      const [row] = await server.query(server.url, 'SHOW data_directory');
      writeFileSync(join(String(row?.data_directory), 'standby.signal'), '');
      await server.restart();
      assert.deepEqual(await server.query(server.url, 'SELECT pg_is_in_recovery() AS is'), [{ is: true }]);
    },
    toWritable: (server) => server.query(server.url, 'SELECT pg_promote()'),
  },
  ...(['own-mariadb', 'own-mysql'] as const).map((needs) => ({
    needs,
    title: `${needs === 'own-mysql' ? 'MySQL' : 'MariaDB'} with read_only`,
    start: needs === 'own-mysql' ? startOwnMysql : startOwnMariadb,
    toReadOnly: globally('ON'),
    toWritable: globally('OFF'),
  })),
];

for (const { needs, title, start, toReadOnly, toWritable } of cases)
  requiring(needs, `svc relay that starts on a database that takes no writes: ${title}`, function () {
    this.timeout(120_000);

    it('waits and says so, and sends once it does', async () => {
      const server = await start();
      const owner = await server.freshDatabase();
      const folder = temporaryFolder('relay');
      const store = openOutboxStore({ url: owner, table, initializeSchema: 'always' });
      let url = owner;
      if (store.name === 'mysql') {
        // root may write all the same.
        await server.query(owner, "CREATE USER relay IDENTIFIED BY 'secret'");
        await server.query(owner, `GRANT ALL ON ${nameOf(owner)}.* TO relay`);
        url = Object.assign(new URL(owner), { username: 'relay', password: 'secret' }).href;
      }
      await store.prepare();
      await store.insert([outboxRow({ eventId: '1' })]);
      await toReadOnly(server, owner);
      const child = spawn(process.execPath, [main, 'relay'], {
        cwd: folder,
        env: {
          ...{ ...hostEnvironment(), MANAGEMENT_SERVER_PORT: '0', SVC_BROKER_CLIENT: 'file' },
          ...{ SVC_OUTBOX_ENABLED: 'true', SVC_OUTBOX_DATASOURCE_URL: url },
          SVC_OUTBOX_INITIALIZE_SCHEMA: 'always',
        },
        stdio: ['ignore', 'ignore', 'pipe'],
      });
      const ended = once(child, 'close');
      let stderr = '';
      child.stderr.setEncoding('utf8').on('data', (text: string) => {
        stderr += text;
      });
      const until = (isSo: () => Promise<boolean> | boolean): Promise<void> => {
        const isSoAndRuns = async (): Promise<boolean> => {
          if (await isSo()) return true;
          assert.equal(child.exitCode, null, stderr);
          return false;
        };
        return untilSo(isSoAndRuns, { limitMs: 40_000, everyMs: 50, say: () => stderr });
      };
      try {
        await until(() => /warn: relay: waits for the database: \S+ at \S+ is read-only/.test(stderr));
        await toWritable(server, owner);
        await until(async () => (await store.statistics()).published === 1);
        child.kill('SIGTERM');
        assert.deepEqual(await ended, [0, null], stderr);
      } finally {
        child.kill('SIGKILL');
        await store.close(1_000);
        await server.stop();
      }
    });
  });
