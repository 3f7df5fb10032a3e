import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import type { Bench, Figure } from '../../scripts/bench.ts';
import { startOwnKafka } from '../support/kafka.ts';
import { startOwnPostgres } from '../support/postgres.ts';
import type { OutboxAppSetup, OutboxRun } from './outbox-app.ts';
import { applicationScale } from './scale-application.ts';
import { startMembers, startRelays } from './scale-crowd.ts';
import { connectionsTo, cpuSecondsOf } from './server-load.ts';

// First what svc costs one application, by what grows with it (`--only application`, `--rounds <count>`). Then (`--only crowds`) what
// processes cost the servers while nothing happens: whole applications first, then crowds of the parts that ask by
// themselves, the relay of each process at PostgreSQL and its member in the group of worker ids at Kafka.

type Postgres = Awaited<ReturnType<typeof startOwnPostgres>>;
type Kafka = Awaited<ReturnType<typeof startOwnKafka>>;
type Figures = Omit<Figure, 'bench'>[];

/** After the start: worker ids are asked for, shards are shared out, tables are looked at. */
const settleMs = 25_000;
const topic = 'bench.scale';

export const bench: Bench = async (progress, args = []) => {
  const { values } = parseArgs({
    args: [...args],
    options: {
      processes: { type: 'string', default: '1,10,40' },
      relays: { type: 'string', default: '10,100,1000' },
      members: { type: 'string', default: '10,100,1000' },
      seconds: { type: 'string', default: '60' },
      rounds: { type: 'string', default: '5' },
      only: { type: 'string' },
    },
  });
  const counts = (text: string): number[] =>
    text
      .split(',')
      .map(Number)
      .filter((count) => count > 0);
  const ms = Number(values.seconds) * 1_000;
  const postgres = await startOwnPostgres();
  const kafka = await startOwnKafka();
  try {
    // A thousand relays of one process keep a connection for statements and one that listens.
    await postgres.query(postgres.url, 'ALTER SYSTEM SET max_connections = 2200');
    await postgres.restart();
    await kafka.createTopic(topic, { partitions: 6 });
    const figures: Figures = [];
    if (values.only !== 'crowds')
      figures.push(...(await applicationScale(kafka, Number(values.rounds), progress)));
    if (values.only === 'application') return figures;
    figures.push(...(await rowCosts(postgres, kafka)));
    for (const count of counts(values.processes))
      figures.push(...(await processes(postgres, kafka, count, ms, progress)));
    for (const count of counts(values.relays)) figures.push(...(await relays(postgres, count, ms, progress)));
    for (const count of counts(values.members)) figures.push(...(await members(kafka, count, ms, progress)));
    return figures;
  } finally {
    await postgres.stop();
    await kafka.stop();
  }
};

/** What an event adds to the log of the database and to its table: the row, its marks, and the notice. */
async function rowCosts(postgres: Postgres, kafka: Kafka): Promise<Figures> {
  const perTransaction: number[] = [];
  let tableBytes = 0;
  for (const kind of ['plain', 'relayed'] as const) {
    const url = await freshOutbox(postgres);
    const app = await startApp({ url, kind, kafka: { brokers: kafka.brokers, topic } });
    await sleep(2_000);
    await postgres.query(url, 'CHECKPOINT');
    const before = await walOf(postgres, url);
    app.send({ work: 'transactions', clients: 4, ms: 5_000 });
    const [{ count }] = (await once(app, 'message')) as [OutboxRun];
    // The relay marks what it has sent.
    await sleep(3_000);
    perTransaction.push(((await walOf(postgres, url)) - before) / count);
    if (kind === 'relayed') {
      const [size] = await postgres.query(url, `SELECT pg_total_relation_size('svc_outbox_events') AS bytes`);
      tableBytes = Number(size?.bytes) / count;
    }
    app.kill('SIGKILL');
  }
  const [plain = 0, relayed = 0] = perTransaction;
  return [
    { case: 'wal-per-event', value: Math.round(relayed - plain), unit: 'bytes' },
    { case: 'table-per-event', value: Math.round(tableBytes), unit: 'bytes' },
  ];
}

async function walOf(postgres: Postgres, url: string): Promise<number> {
  const [row] = await postgres.query(url, `SELECT pg_current_wal_lsn() - '0/0' AS wal`);
  return Number(row?.wal);
}

async function processes(
  postgres: Postgres,
  kafka: Kafka,
  count: number,
  ms: number,
  progress: (text: string) => void,
): Promise<Figures> {
  const url = await freshOutbox(postgres);
  const setup: OutboxAppSetup = { url, kind: 'relayed', kafka: { brokers: kafka.brokers, topic } };
  const apps: ChildProcess[] = [];
  // A deployment does not start all of them at once either.
  while (apps.length < count) {
    apps.push(
      ...(await Promise.all(Array.from({ length: Math.min(4, count - apps.length) }, () => startApp(setup)))),
    );
    await sleep(500);
  }
  progress(`${count} processes: started, measured after ${settleMs / 1_000} s`);
  await sleep(settleMs);
  const name = `processes-${count}`;
  const kafkaPort = Number(kafka.brokers[0]?.split(':')[1]);
  const cpu = cpuSecondsOf(kafkaPort);
  const figures = await loadOf(postgres, url, name, ms);
  figures.push(
    { case: `${name}-kafka-connections`, value: connectionsTo(kafkaPort), unit: '' },
    { case: `${name}-kafka-cpu`, value: share(cpuSecondsOf(kafkaPort) - cpu, ms), unit: '% of a core' },
  );
  for (const app of apps) app.kill('SIGKILL');
  return figures;
}

async function relays(
  postgres: Postgres,
  count: number,
  ms: number,
  progress: (text: string) => void,
): Promise<Figures> {
  const url = await freshOutbox(postgres);
  const begun = performance.now();
  const crowd = await startRelays(url, count);
  progress(`${count} relays: started in ${Math.round(performance.now() - begun)} ms`);
  await sleep(settleMs);
  const figures = await loadOf(postgres, url, `relays-${count}`, ms);
  const held = await postgres.query(
    url,
    `SELECT count(*) AS held, count(DISTINCT owner) AS owners FROM svc_outbox_events_shard WHERE lease_until > now()`,
  );
  progress(`${count} relays: ${held[0]?.held} shards are held by ${held[0]?.owners} of them`);
  await crowd.stop();
  return figures;
}

async function members(
  kafka: Kafka,
  count: number,
  ms: number,
  progress: (text: string) => void,
): Promise<Figures> {
  const port = Number(kafka.brokers[0]?.split(':')[1]);
  const name = `members-${count}`;
  const before = cpuSecondsOf(port);
  const begun = performance.now();
  const crowd = await startMembers(kafka.brokers, `svc-workers-${count}`, count);
  const joined = await crowd.allGranted(300_000);
  const startMs = performance.now() - begun;
  const startCpu = cpuSecondsOf(port) - before;
  progress(
    `${count} members: ${joined} of them have ${crowd.distinct()} worker ids after ${Math.round(startMs)} ms`,
  );
  await sleep(5_000);
  const cpu = cpuSecondsOf(port);
  await sleep(ms);
  const figures: Figures = [
    { case: `${name}-until-all-have-ids`, value: Math.round(startMs), unit: 'ms' },
    { case: `${name}-start-cpu`, value: Number(startCpu.toFixed(1)), unit: 's of CPU' },
    { case: `${name}-kafka-cpu`, value: share(cpuSecondsOf(port) - cpu, ms), unit: '% of a core' },
  ];
  // What a pod that comes later costs the others.
  const late = await startMembers(kafka.brokers, `svc-workers-${count}`, 1);
  const lateBegun = performance.now();
  await late.allGranted(120_000);
  figures.push({
    case: `${name}-one-more`,
    value: Math.round(performance.now() - lateBegun),
    unit: 'ms',
  });
  await Promise.all([crowd.stop(), late.stop()]);
  return figures;
}

async function loadOf(postgres: Postgres, url: string, name: string, ms: number): Promise<Figures> {
  const port = Number(new URL(url).port);
  const now = async (): Promise<{ transactions: number; wal: number; connections: number }> => {
    const [row] = await postgres.query(
      url,
      `SELECT xact_commit + xact_rollback AS transactions, numbackends AS connections, pg_current_wal_lsn() - '0/0' AS wal FROM pg_stat_database WHERE datname = current_database()`,
    );
    return {
      transactions: Number(row?.transactions),
      wal: Number(row?.wal),
      connections: Number(row?.connections),
    };
  };
  const cpu = cpuSecondsOf(port);
  const before = await now();
  await sleep(ms);
  const after = await now();
  const perSecond = (count: number): number => Number(((count * 1_000) / ms).toFixed(1));
  return [
    { case: `${name}-connections`, value: after.connections - 1, unit: '' },
    {
      case: `${name}-statements`,
      value: perSecond(after.transactions - before.transactions),
      unit: 'transactions/s',
    },
    { case: `${name}-wal`, value: perSecond((after.wal - before.wal) / 1_024), unit: 'KB/s' },
    { case: `${name}-postgres-cpu`, value: share(cpuSecondsOf(port) - cpu, ms), unit: '% of a core' },
  ];
}

const share = (seconds: number, ms: number): number => Number(((seconds * 100_000) / ms).toFixed(1));

async function freshOutbox(postgres: Postgres): Promise<string> {
  const url = await postgres.freshDatabase();
  await postgres.query(url, 'CREATE TABLE orders (id text PRIMARY KEY, body text NOT NULL)');
  return url;
}

async function startApp(setup: OutboxAppSetup): Promise<ChildProcess> {
  const app = fork(join(import.meta.dirname, 'outbox-app.ts'), [JSON.stringify(setup)]);
  await once(app, 'message');
  return app;
}
