import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Database, useGivenDatabase } from '../../scripts/services/database.ts';
import { type Instance, pidsOf } from '../../scripts/services/instances.ts';
import { mariadb } from '../../scripts/services/mariadb.ts';
import { mysql } from '../../scripts/services/mysql.ts';
import { postgres } from '../../scripts/services/postgres.ts';
import { isAlive, processesBelow } from '../../scripts/services/processes.ts';
import type { DatabaseSupport, OwnDatabase, TestDatabase } from './database.ts';
import { startMariadb, startOwnMariadb } from './mariadb.ts';
import { startMysql, startOwnMysql } from './mysql.ts';
import { startOwnPostgres, startPostgres } from './postgres.ts';
import { requiring } from './requires.ts';

interface Case extends DatabaseSupport {
  readonly name: 'postgres' | 'mariadb' | 'mysql';
  readonly product: Database;
  readonly version: RegExp;
}

const cases: readonly Case[] = [
  {
    ...{ name: 'postgres', product: postgres, version: /^PostgreSQL 18\./ },
    ...{ start: startPostgres, startOwn: startOwnPostgres },
  },
  {
    ...{ name: 'mariadb', product: mariadb, version: /^11\.4\..*MariaDB/ },
    ...{ start: startMariadb, startOwn: startOwnMariadb },
  },
  {
    ...{ name: 'mysql', product: mysql, version: /^8\.0\.31/ },
    ...{ start: startMysql, startOwn: startOwnMysql },
  },
];

for (const { name, product, version, start, startOwn } of cases) {
  const { title, variable } = product;

  requiring(name, `the ${title} that suites share`, () => {
    let database: TestDatabase;
    before(async () => {
      database = await start();
    });

    it('is one for all of them, and answers', async () => {
      assert.equal((await start()).url, database.url);
      const [row] = await database.query(database.url, 'SELECT version() AS version');
      assert.match(String(row?.version), version);
    });

    it('gives each suite an empty database of its own', async () => {
      const [one, two] = await Promise.all([database.freshDatabase(), database.freshDatabase()]);
      assert.match(one, /\/svc_test_[0-9a-f]+$/);
      await database.query(one, 'CREATE TABLE rows_of_one (id int)');
      await assert.rejects(database.query(two, 'SELECT * FROM rows_of_one'), /exist/);
    });
  });

  requiring(`own-${name}`, `a ${title} of a suite's own`, function () {
    this.timeout(60_000);
    let database: OwnDatabase;
    let url: string;
    before(async () => {
      database = await startOwn({ logStatements: true });
      url = await database.freshDatabase();
      await database.query(url, 'CREATE TABLE kept (id int)');
    });
    after(() => database?.stop());

    const ids = async () =>
      (await database.query(url, 'SELECT id FROM kept ORDER BY id')).map(({ id }) => id);

    it('writes down the statements that it takes', async () => {
      await database.query(url, "SELECT 'a statement to find'");
      const file = database.statementsFile ?? '';
      for (let tries = 0; tries < 40 && !readFileSync(file, 'utf8').includes('a statement to find'); tries++)
        await sleep(50);
      assert.match(readFileSync(file, 'utf8'), /SELECT 'a statement to find'/);
    });

    it('keeps its rows and its port through kill -9', async () => {
      await database.query(url, 'INSERT INTO kept VALUES (1)');
      await database.kill();
      await assert.rejects(ids(), /ECONNREFUSED/);
      await database.restart();
      assert.deepEqual(await ids(), [1]);
      await database.query(url, 'INSERT INTO kept VALUES (2)');
      await database.restart();
      assert.deepEqual(await ids(), [1, 2]);
    });

    it('answers nothing while it is frozen, and goes on afterwards', async () => {
      await database.pause();
      const answer = ids();
      assert.equal(await Promise.race([answer, sleep(300, 'silence')]), 'silence');
      database.resume();
      assert.deepEqual(await answer, [1, 2]);
    });

    it('can be killed while it is frozen', async () => {
      await database.pause();
      await database.kill();
      await database.restart();
      assert.deepEqual(await ids(), [1, 2]);
    });
  });

  describe(`${variable} that names no ${title}`, () => {
    const given = process.env[variable];
    afterEach(() => {
      if (given === undefined) delete process.env[variable];
      else process.env[variable] = given;
    });

    it('is told with its server, and without its password', async () => {
      process.env[variable] = `${name}://me:secret@127.0.0.1:1/test`;
      await assert.rejects(useGivenDatabase(product), (error: Error & { how?: string }) => {
        assert.match(
          error.message,
          new RegExp(`^${variable} names 127.0.0.1:1, where no ${title} can be used: `),
        );
        assert.doesNotMatch(error.message, /secret/);
        assert.equal(error.how, `start that server, or unset ${variable}`);
        return true;
      });
    });
  });
}

requiring(['mariadb', 'mysql'], 'MariaDB and MySQL', () => {
  it('are not taken for each other', async () => {
    const [one, other] = await Promise.all([startMariadb(), startMysql()]);
    assert.equal(await mysql.problem(one.url), 'it is a MariaDB');
    assert.equal(await mariadb.problem(other.url), 'it is a MySQL');
  });
});

requiring(['own-postgres', 'own-mariadb', 'own-mysql'], 'a test run that is killed with databases', () => {
  it('leaves no server and no data behind, frozen ones among them', async function () {
    this.timeout(60_000);
    const file = join(import.meta.dirname, 'fixtures', 'start-databases.ts');
    const run = spawn(process.execPath, [file], { stdio: ['ignore', 'pipe', 'inherit'] });
    const [output] = (await once(run.stdout, 'data')) as [Buffer];
    const instances = JSON.parse(output.toString()) as Instance[];
    const pids = instances.flatMap(pidsOf);
    pids.push(...(await Promise.all(pids.map(processesBelow))).flat());
    assert.ok(pids.length > instances.length && pids.every(isAlive));
    run.kill('SIGKILL');
    const left = () => [...pids.filter(isAlive), ...instances.filter(({ folder }) => existsSync(folder))];
    for (let tries = 0; tries < 100 && left().length > 0; tries++) await sleep(50);
    assert.deepEqual(left(), []);
  });
});
