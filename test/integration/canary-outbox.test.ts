import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { inspect } from 'node:util';
import { publishEvent } from '../../src/index.ts';
import { assertSilent, canaries, canarySecrets, marked, type Person, throwing } from '../protect/canary.ts';
import { openCanaryCage } from '../protect/canary-cage.ts';
import type { OwnDatabase } from '../support/database.ts';
import { startKafka } from '../support/kafka.ts';
import { startOwnMariadb } from '../support/mariadb.ts';
import { startOwnPostgres } from '../support/postgres.ts';
import { needing, requiring } from '../support/requires.ts';
import { until as untilSo } from '../support/until.ts';
import {
  type Application,
  type CanaryDatabase,
  canaryMariadb,
  canaryPostgres,
  canarySqlite,
  table,
} from './canary-databases.ts';

/** What no rule protects: it may be published, and stands in no error and no line of a log of svc all the same. */
const plain = { note: 'plain-text-4711', aggregateId: 'aggregate-4711' };
const plainTexts = Object.values(plain);

requiring(['own-postgres', 'own-mariadb'], 'canary: the outbox', function () {
  this.timeout(60_000);
  const cage = openCanaryCage();
  const fields = ['**.customer.email', 'contacts[*].phone'];
  const pii = {
    fields,
    crypto: { defaultKey: canarySecrets.key, salt: canarySecrets.salt },
    detect: 'report',
  };
  const Marked = marked({ phone: 'ENCRYPT', card: 'HASH', iban: 'EXCLUDE' });
  let servers: { postgres: OwnDatabase; mariadb: OwnDatabase };

  before(async () => {
    const [postgres, mariadb] = await Promise.all([
      startOwnPostgres({ logStatements: true }),
      startOwnMariadb({ logStatements: true }),
    ]);
    servers = { postgres, mariadb };
  });
  after(() => Promise.all(Object.values(servers ?? {}).map((server) => server.stop())));

  function run({ url }: CanaryDatabase, broker?: object, more?: object): void {
    cage.run(pii, broker, { outbox: { enabled: true, datasource: { url }, ...more } });
  }

  /** A function of the application that stores an event made of what it is given. */
  function storing(application: Application, eventType: string, more: object = {}) {
    const outbox = { aggregateType: 'Order', aggregateId: '#args[1]' };
    const options = { eventType, payload: '#args[0]', outbox, ...more };
    return publishEvent(options, async (_payload: unknown, _id: string) => {
      await application.query('INSERT INTO orders (id) VALUES (1)');
      return 'done';
    });
  }

  /** Calls it in a transaction of its own; gives what the application saw go wrong. */
  async function inTransaction(
    application: Application,
    work: () => Promise<unknown>,
    end: 'COMMIT' | 'ROLLBACK' = 'COMMIT',
  ): Promise<unknown[]> {
    const thrown: unknown[] = [];
    const note = (error: unknown): void => void thrown.push(error);
    await application.query('BEGIN').catch(note);
    await work().catch(note);
    await application.query(end).catch(note);
    return thrown;
  }

  const person = (): Person => new Marked();
  const payloads = (): object[] => [
    person(),
    { ...plain, person: person() },
    { deep: { list: [new Map([['a', { person: person() }]])], set: new Set([person()]) } },
    { customer: { email: canaries.email }, contacts: [{ phone: canaries.phone }] },
    { toJSON: () => ({ person: person(), customer: { email: canaries.email } }) },
  ];

  /** All that an application does on a good day: commits, rollbacks, and events that cannot be made. */
  async function storeAll(application: Application): Promise<unknown[]> {
    const stored = storing(application, 'STORED');
    const ends = [];
    for (const payload of payloads()) ends.push(await inTransaction(application, () => stored(payload, 'a')));
    ends.push(await inTransaction(application, () => stored(person(), 'b'), 'ROLLBACK'));
    assert.deepEqual(ends.flat(), []);
    const asId = await inTransaction(application, () => stored(person(), canaries.email));
    const asKey = storing(application, 'BY_KEY', {
      key: ({ args }: { args: unknown[] }) => (args[0] as Person).email,
    });
    const failing = storing(application, 'FAILING', { payload: throwing });
    const thrown = [
      ...asId,
      ...(await inTransaction(application, () => asKey(person(), 'a'))),
      ...(await inTransaction(application, () => failing(person(), 'a'))),
    ];
    // Each fails its call, and its COMMIT after it.
    assert.equal(thrown.length, 6, inspect(thrown));
    return thrown;
  }

  /** Each COMMIT fails; and the call before it, where its row does not go with the COMMIT. */
  async function refuseAll(application: Application): Promise<unknown[]> {
    const payload = { ...plain, person: person() };
    const thrown: unknown[] = [];
    for (const eventType of ['REFUSED', 'RETRIED']) {
      const call = storing(application, eventType);
      thrown.push(...(await inTransaction(application, () => call(payload, plain.aggregateId))));
    }
    return thrown;
  }

  const until = (isSo: () => boolean | Promise<boolean>, what: string): Promise<void> =>
    untilSo(isSo, { limitMs: 15_000, say: () => `${what}\n${cage.log.join('\n')}` });

  /** Each column of each row, as text; bytes as what they hold. */
  async function rowsOf({ ask }: CanaryDatabase): Promise<string> {
    const rows = await ask(`SELECT * FROM ${table} ORDER BY id`);
    const textOf = (value: unknown): string =>
      value instanceof Uint8Array ? Buffer.from(value).toString() : String(value);
    return rows
      .flatMap((row) => Object.entries(row).map(([column, value]) => `${column}: ${textOf(value)}`))
      .join('\n');
  }

  const published = (under: CanaryDatabase) => async (): Promise<boolean> => {
    const [row] = await under.ask(`SELECT count(*) AS count FROM ${table} WHERE status = 'PUBLISHED'`);
    return Number(row?.count) === payloads().length;
  };

  /** What was stored is there, protected; nothing of a value is anywhere. */
  async function assertSilentRows(under: CanaryDatabase, thrown: readonly unknown[]): Promise<void> {
    const rows = await rowsOf(under);
    assert.match(rows, /ca\*+@ca\*+\.com/);
    assert.match(rows, /ENC\(/);
    assert.match(rows, /HASH\(/);
    assertSilent(table, rows);
    await cage.assertNothingShown(thrown);
    assertValueless(thrown);
  }

  /** Not even what nobody has marked. */
  function assertValueless(thrown: readonly unknown[]): void {
    const deep = { depth: 30, showHidden: true, getters: true, maxStringLength: null, maxArrayLength: null };
    for (const error of thrown)
      assertSilent('an error', `${inspect(error, deep)} ${JSON.stringify(error)}`, plainTexts);
    assertSilent('the log of svc', cage.log.join('\n'), plainTexts);
  }

  async function assertSilentDatabase(under: CanaryDatabase, refusedCount: number): Promise<void> {
    for (const statement of under.refusals) await under.ask(statement).catch((error) => assert.fail(error));
    run(under);
    const application = await under.connect();
    try {
      const thrown = await storeAll(application);
      await until(published(under), 'published');
      const refused = await refuseAll(application);
      assert.equal(refused.length, refusedCount, inspect(refused));
      await assertSilentRows(under, [...thrown, ...refused]);
    } finally {
      await application.close();
    }
  }

  it('is in no column, error or line of a log with SQLite', async () => {
    const under = await canarySqlite(cage.folder);
    await assertSilentDatabase(under, 4);
    const file = under.url.slice('sqlite:'.length);
    for (const path of [file, `${file}-wal`]) assertSilent(path, readFileSync(path, 'latin1'));
  });

  const postgresLogs = {
    'as it is by itself': ["log_statement = 'none'"],
    'that tells everything': [
      ...["log_statement = 'all'", 'log_min_duration_statement = 0', "log_min_error_statement = 'debug5'"],
      ...['log_parameter_max_length = -1', 'log_parameter_max_length_on_error = -1'],
      ...["log_error_verbosity = 'verbose'", "log_min_messages = 'debug1'"],
    ],
  };
  for (const [what, settings] of Object.entries(postgresLogs)) {
    it(`is in no column, error or line of a log with PostgreSQL, whose log is one ${what}`, async () => {
      const { statementsFile } = servers.postgres;
      const textOfLog = (): string => readFileSync(statementsFile ?? '', 'latin1');
      const before = textOfLog().length;
      await assertSilentDatabase(await canaryPostgres(servers.postgres, settings), 2);
      const log = textOfLog().slice(before);
      assert.match(log, /Failing row contains/);
      assert.equal(/INSERT INTO orders/.test(log), settings.length > 1);
      assert.equal(log.includes(Buffer.from('"eventType":"REFUSED"').toString('hex')), settings.length > 1);
      assertSilent('the log of PostgreSQL', log);
    });
  }

  for (const name of ['postgres', 'mariadb'] as const) {
    it(`is in no error or line of a log when ${name} is killed within a transaction`, async () => {
      const under = await { postgres: canaryPostgres, mariadb: canaryMariadb }[name](servers[name]);
      run(under);
      const application = await under.connect();
      // It sends nothing itself: the first to find that the database is away is svc.
      const silent = publishEvent(
        {
          eventType: 'AWAY',
          payload: '#args[0]',
          outbox: { aggregateType: 'Order', aggregateId: '#args[1]' },
        },
        async (_payload: unknown, _id: string) => 'done',
      );
      try {
        const thrown = await inTransaction(application, async () => {
          await application.query('INSERT INTO orders (id) VALUES (1)');
          await servers[name].kill();
          return silent({ ...plain, person: person() }, plain.aggregateId);
        });
        // With PostgreSQL the first to send something is the COMMIT, unless the end of the connection was seen before.
        assert.ok(thrown.length === 2 || (name === 'postgres' && thrown.length === 1), inspect(thrown));
        await until(
          () => /outbox/.test(cage.log.filter((line) => /^(warn|error)/.test(line)).join()),
          'a line',
        );
        await cage.assertNothingShown(thrown);
        assertValueless(thrown);
      } finally {
        await servers[name].restart();
        await application.close().catch(() => {});
      }
      assert.equal(await rowsOf(under), '');
      assertSilent(`the log of ${name}`, readFileSync(servers[name].statementsFile ?? '', 'latin1'));
    });
  }

  it('is in no column or line of a log when Kafka takes the events of no topic', async function () {
    this.timeout(120_000);
    await needing('kafka', this);
    const kafka = await startKafka();
    const [absent, narrow] = [`canary.absent-${process.pid}`, `canary-narrow-${process.pid}`];
    // Kafka, which makes topics by itself, makes none whose name differs from another in this only.
    await kafka.createTopic(absent.replace('.', '_'));
    await kafka.createTopic(narrow, { config: { 'max.message.bytes': '200' } });
    const under = await canarySqlite(cage.folder);
    const { brokers } = kafka;
    run(
      under,
      { client: 'kafkajs', 'bootstrap-servers': brokers },
      { 'max-retries': 1, 'send-timeout-seconds': 2 },
    );
    const application = await under.connect();
    try {
      for (const topic of [absent, narrow]) {
        const call = storing(application, 'STORED', { topic });
        const payload = { ...plain, person: person() };
        assert.deepEqual(
          await inTransaction(application, () => call(payload, plain.aggregateId + topic)),
          [],
        );
      }
      await until(() => cage.log.some((line) => line.includes(absent)), 'the line of the topic');
      await until(async () => /status: FAILED/.test(await rowsOf(under)), 'the row that is too large');
      assert.match(await rowsOf(under), /last_error: \S/);
      await assertSilentRows(under, []);
      const [failed] = await under.ask(`SELECT last_error FROM ${table} WHERE status = 'FAILED'`);
      assertSilent('last_error', String(failed?.last_error), plainTexts);
    } finally {
      await application.close();
    }
  });

  it('is in no column, error or line of a log with MariaDB, whose log has each statement', async () => {
    await assertSilentDatabase(await canaryMariadb(servers.mariadb), 4);
    const log = readFileSync(servers.mariadb.statementsFile ?? '', 'latin1');
    assert.match(log, /INSERT INTO orders/);
    assert.match(log, /Execute.*INSERT INTO .*REFUSED/);
    assertSilent('the log of MariaDB', log);
  });
});
