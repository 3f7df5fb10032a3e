import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import type { Bench, Figure } from '../../scripts/bench.ts';
import { startOwnKafka } from '../support/kafka.ts';
import { startOwnPostgres } from '../support/postgres.ts';
import { quantile } from './load.ts';
import type { OutboxAppSetup, OutboxOrder, OutboxRun } from './outbox-app.ts';
import { drainCases } from './outbox-drain.ts';

const kinds = ['plain', 'patched', 'joined'] as const;
type Kind = (typeof kinds)[number];

interface Case {
  readonly name: string;
  readonly kind: Kind;
  readonly order: OutboxOrder;
  readonly unit: string;
  readonly against: string;
}

const ms = 1_500;
/** V8 optimizes for so long what an application calls a few thousand times a second: a service is measured, not its start. */
const warmUpMs = 15_000;
const transactions = (clients: number): OutboxOrder => ({ work: 'transactions', clients, ms });
const queries: OutboxOrder = { work: 'queries', clients: 1, ms };

const cases: readonly Case[] = [
  ...[1, 16].map(
    (clients): Case => ({
      ...{ name: `join-${clients}`, kind: 'joined', order: transactions(clients) },
      ...{ unit: 'transactions/s', against: `without-svc-${clients}` },
    }),
  ),
  {
    ...{ name: 'overhead-unjoined', kind: 'patched', order: queries },
    ...{ unit: 'queries/s', against: 'unpatched' },
  },
];

/** Events in the application's transaction beside the same application without svc; the relay beside one row at a time. */
export const bench: Bench = async (progress, args = []) => {
  const { values } = parseArgs({
    args: [...args],
    options: { rounds: { type: 'string' }, only: { type: 'string' } },
  });
  const rounds = Number(values.rounds ?? 5);
  const postgres = await startOwnPostgres();
  try {
    const figures: Omit<Figure, 'bench'>[] = [];
    if (values.only === undefined || values.only === 'join')
      figures.push(...(await joinCases(postgres, rounds, progress)));
    if (values.only === undefined || values.only === 'drain')
      figures.push(...(await drainCases(postgres, rounds, progress)));
    if (values.only === undefined || values.only === 'latency')
      figures.push(await latency(postgres, progress));
    return figures;
  } finally {
    await postgres.stop();
  }
};

type Postgres = Awaited<ReturnType<typeof startOwnPostgres>>;

async function joinCases(
  postgres: Postgres,
  rounds: number,
  progress: (text: string) => void,
): Promise<Omit<Figure, 'bench'>[]> {
  const url = await postgres.freshDatabase();
  await postgres.query(url, 'CREATE TABLE orders (id text PRIMARY KEY, body text NOT NULL)');
  const apps = new Map<Kind, ChildProcess>();
  for (const kind of kinds) apps.set(kind, await startApp({ url, kind }));
  const ask = async (kind: Kind, order: OutboxOrder): Promise<number> => {
    const app = apps.get(kind) as ChildProcess;
    app.send(order);
    const [{ count, ms: elapsed }] = (await once(app, 'message')) as [OutboxRun];
    return Math.round((count * 1000) / elapsed);
  };
  progress(`PostgreSQL and application share this machine; median of ${rounds} pairs of ${ms} ms in turn`);
  const figures: Omit<Figure, 'bench'>[] = [];
  for (const { name, kind, order, unit, against } of cases) {
    for (const each of ['plain', kind] as const) await ask(each, { ...order, ms: warmUpMs });
    const pairs: { readonly plain: number; readonly svc: number }[] = [];
    for (let round = 0; round < rounds; round++) {
      const plain = await ask('plain', order);
      const svc = await ask(kind, order);
      pairs.push({ plain, svc });
      progress(`${name}: ${svc} ${unit}, ${plain} without`);
    }
    const ratio = quantile(
      pairs.map(({ plain, svc }) => svc / plain),
      0.5,
    );
    figures.push({
      case: against,
      value: quantile(
        pairs.map(({ plain }) => plain),
        0.5,
      ),
      unit,
    });
    figures.push({
      ...{
        case: name,
        value: quantile(
          pairs.map(({ svc }) => svc),
          0.5,
        ),
        unit,
        against,
      },
      ratio: Number(ratio.toFixed(3)),
    });
  }
  for (const app of apps.values()) app.send('end');
  return figures;
}

/** From the answer to a COMMIT to the log of Kafka's broker, by its own clock: both run here. */
async function latency(postgres: Postgres, progress: (text: string) => void): Promise<Omit<Figure, 'bench'>> {
  const kafka = await startOwnKafka();
  const url = await postgres.freshDatabase();
  await postgres.query(url, 'CREATE TABLE orders (id text PRIMARY KEY, body text NOT NULL)');
  const topic = 'bench.outbox';
  await kafka.createTopic(topic, { partitions: 6, config: { 'message.timestamp.type': 'LogAppendTime' } });
  const app = await startApp({ url, kind: 'relayed', kafka: { brokers: kafka.brokers, topic } });
  const orders = { work: 'seldom', clients: 1 } as const;
  const ask = async (forMs: number): Promise<OutboxRun> => {
    app.send({ ...orders, ms: forMs });
    return ((await once(app, 'message')) as [OutboxRun])[0];
  };
  // It makes its tables.
  await sleep(1_000);
  const warmUp = await ask(3_000);
  const { committedAt, count } = await ask(10_000);
  const records = await kafka.read(topic, { count: warmUp.count + count, timeoutMs: 30_000 });
  const waits = records.flatMap(({ key, timestamp }) => {
    const committed = committedAt[key ?? ''];
    return committed === undefined ? [] : [timestamp - committed];
  });
  progress(`latency: ${waits.length} events, p99 ${quantile(waits, 0.99)} ms`);
  app.send('end');
  await kafka.stop();
  return { case: 'latency-idle', value: quantile(waits, 0.5), unit: 'ms' };
}

async function startApp(setup: OutboxAppSetup): Promise<ChildProcess> {
  const app = fork(join(import.meta.dirname, 'outbox-app.ts'), [JSON.stringify(setup)]);
  await once(app, 'message');
  return app;
}
