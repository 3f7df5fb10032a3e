import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import type { Bench, Figure } from '../../scripts/bench.ts';
import { startProber } from '../faults/comeback/prober.ts';
import { type OwnKafka, startOwnKafka } from '../support/kafka.ts';
import { startCase } from './case-process.ts';
import { quantile } from './load.ts';
import type { AppState } from './outage/app.ts';
import { type ReadBack, readBack } from './outage/read-back.ts';
import { type StartedApp, startApp } from './outage/started-app.ts';

const topic = 'orders';
const partitions = 6;
const secondsOfStart = 2;
const secondsBefore = 3;
const secondsAfter = 2;
const drainLimitMs = 900_000;
const byHandEvents = 30_000;

/** When what happened, in milliseconds since the epoch. */
interface Times {
  readonly killed: number;
  /** The cluster has answered for the first time. */
  readonly answered: number;
  /** Nothing waits in the backup any more. */
  readonly direct: number;
  readonly ended: number;
}

/**
 * An application under load whose only broker is killed, and started again while the load goes on: memory, and whether the
 * backup keeps up; then how soon all of it is through, in what order, and what new events feel of it.
 */
export const bench: Bench = async (progress, args = []) => {
  const { values } = parseArgs({
    args: [...args],
    options: {
      outage: { type: 'string', default: '10' },
      rate: { type: 'string', default: '1000' },
      client: { type: 'string', default: 'kafkajs' },
      profile: { type: 'string' },
    },
  });
  const { client } = values;
  const profile = values.profile && resolve(values.profile);
  const [outageMs, perSecond] = [Number(values.outage) * 1000, Number(values.rate)];
  const folder = mkdtempSync(join(tmpdir(), 'svc-outage-'));
  const kafka = await startOwnKafka();
  const config = { 'message.timestamp.type': 'LogAppendTime' };
  await kafka.createTopic(topic, { partitions, config });
  const backupFolder = join(folder, 'dlq-backup');
  const setup = { client, brokers: kafka.brokers, topic, backupFolder, perSecond };
  const app = await startApp(setup, profile);
  // It is compiled, and its first connections are there.
  await sleep(secondsOfStart * 1000);
  const from = app.latest().at;
  try {
    const times = await comeBack(kafka, app, outageMs, progress);
    const last = await app.end();
    progress(`ended: ${said(last)}`);
    const read = await readBack(kafka.brokers, topic, last.calls);
    const byHand = await sentByHand(kafka, client);
    return figuresOf(
      app.states.filter(({ at }) => at >= from),
      times,
      read,
      byHand,
    );
  } finally {
    app.kill();
    await kafka.stop();
    rmSync(folder, { recursive: true, force: true });
  }
};

async function comeBack(
  kafka: OwnKafka,
  app: StartedApp,
  outageMs: number,
  progress: (text: string) => void,
): Promise<Times> {
  await sleep(secondsBefore * 1000);
  progress(`before: ${said(app.latest())}`);
  const killed = Date.now();
  await kafka.kill();
  for (const endMs = killed + outageMs; Date.now() < endMs; ) {
    await sleep(Math.min(60_000, endMs - Date.now()));
    progress(`${Math.round((Date.now() - killed) / 1000)} s without brokers: ${said(app.latest())}`);
  }
  const prober = startProber(kafka.brokers, topic, { partitions, minInSync: 1 });
  try {
    await kafka.restart();
    await app.until(() => prober.firsts.has('metadata'), 30_000);
  } finally {
    prober.stop();
  }
  const answered = prober.firsts.get('metadata')?.at as number;
  progress(`the cluster answers: ${said(app.latest())}`);
  await app.until(({ at, way, waySince }) => way === 'direct' && waySince < at - 1_000, drainLimitMs);
  const direct = app.latest().waySince;
  await sleep(secondsAfter * 1000);
  return { killed, answered, direct, ended: Date.now() };
}

/** The same client, by hand, with its events in memory and no order to keep: events a second. */
async function sentByHand({ brokers, createTopic }: OwnKafka, client: string): Promise<number> {
  await createTopic('by-hand', { partitions });
  const setup = { kind: 'hand-best', client, brokers, topic: 'by-hand', partitionCount: partitions } as const;
  const hand = await startCase(setup, undefined);
  try {
    await hand.run({ events: byHandEvents });
    const { seconds } = await hand.run({ events: byHandEvents });
    return byHandEvents / seconds;
  } finally {
    await hand.end();
  }
}

function figuresOf(
  states: readonly AppState[],
  { killed, answered, direct, ended }: Times,
  read: ReadBack,
  byHand: number,
): Omit<Figure, 'bench'>[] {
  const before = phase(states, 0, killed);
  const away = phase(states, killed, answered);
  const drain = phase(states, answered, direct);
  const after = phase(states, direct, ended);
  const drained = read.appendedBetween(answered, direct);
  const drainRate = drained / ((direct - answered) / 1000);
  // The medians of the first and the last minute; of a short outage, of its first and last third.
  const spanMs = Math.min(60_000, (answered - killed) / 3);
  return [
    figure('calls-before', before.perSecond, 'events/s'),
    figure('call-before-p50', before.p50Ms, 'ms'),
    figure('call-before-p99', before.p99Ms, 'ms'),
    figure('rss-before', before.rssMb, 'MB'),

    figure('outage', (answered - killed) / 1000, 's'),
    { ...figure('calls-outage', away.perSecond, 'events/s'), ...compared(away, before) },
    figure('call-outage-p50', away.p50Ms, 'ms'),
    figure('call-outage-p99', away.p99Ms, 'ms'),
    figure('cpu-outage', away.cpuUs, 'us/event'),
    figure('backup-behind', away.pending, 'events'),
    figure('backup-files', away.files, 'files'),
    figure('rss-outage-first', phase(states, killed, killed + spanMs).rssMb, 'MB'),
    figure('rss-outage-last', phase(states, answered - spanMs, answered).rssMb, 'MB'),
    figure('rss-outage-most', away.rssMostMb, 'MB'),

    figure('drain', (direct - answered) / 1000, 's'),
    figure('drained', drained, 'events'),
    figure('by-hand', byHand, 'events/s'),
    {
      ...figure('drain-rate', drainRate, 'events/s'),
      ...{ against: 'by-hand', ratio: round(drainRate / byHand) },
    },
    { ...figure('calls-drain', drain.perSecond, 'events/s'), ...compared(drain, before) },
    figure('call-drain-p50', drain.p50Ms, 'ms'),
    figure('call-drain-p99', drain.p99Ms, 'ms'),
    figure('cpu-drain', (drain.cpuUs * drain.calls) / drained, 'us/event'),
    figure('rss-drain-most', drain.rssMostMb, 'MB'),

    figure('call-after-p99', after.p99Ms, 'ms'),
    figure('backup-left', after.lastFiles, 'files'),
    figure('events', read.records - read.repeated + read.missing, 'events'),
    figure('repeated', read.repeated, 'events'),
    mustBeNone('inversions', read.inversions),
    mustBeNone('missing', read.missing),
  ];
}

interface Phase {
  readonly calls: number;
  readonly perSecond: number;
  readonly cpuUs: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly rssMb: number;
  readonly rssMostMb: number;
  readonly pending: number;
  readonly files: number;
  readonly lastFiles: number;
}

function phase(states: readonly AppState[], fromMs: number, toMs: number): Phase {
  const all = states.filter(({ at }) => at >= fromMs && at < toMs);
  const [first, last] = [all[0] as AppState, all.at(-1) as AppState];
  const calls = last.calls - first.calls;
  const callMs = all.flatMap((state) => state.callMs);
  const rss = all.map(({ rssMb }) => rssMb);
  return {
    calls,
    perSecond: calls / ((last.at - first.at) / 1000),
    cpuUs: ((last.cpuSeconds - first.cpuSeconds) * 1e6) / calls,
    p50Ms: quantile(callMs, 0.5),
    p99Ms: quantile(callMs, 0.99),
    rssMb: quantile(rss, 0.5),
    rssMostMb: Math.max(...rss),
    pending: Math.max(...all.map(({ pending }) => pending)),
    files: Math.max(...all.map(({ files }) => files)),
    lastFiles: last.files,
  };
}

function compared({ perSecond }: Phase, before: Phase): { against: string; ratio: number } {
  return { against: 'calls-before', ratio: round(perSecond / before.perSecond) };
}

function figure(name: string, value: number, unit: string): Omit<Figure, 'bench'> {
  return { case: name, value: value < 1_000 ? round(value) : Math.round(value), unit };
}

function mustBeNone(name: string, count: number): Omit<Figure, 'bench'> {
  return { ...figure(name, count, 'events'), ...(count > 0 && { isFailure: true }) };
}

function round(value: number): number {
  return Number(value.toFixed(2));
}

function said({ calls, pending, files, rssMb }: AppState): string {
  return `${calls} calls, ${pending} without an outcome, ${files} files, ${Math.round(rssMb)} MB`;
}
