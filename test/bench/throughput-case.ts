import type { BenchClient, Target } from './bench-client.ts';
import { callers, flood, paced, quantile, type Taker } from './load.ts';
import { payload } from './payload.ts';
import { svcOnKafka } from './svc-on-kafka.ts';

// One case of the throughput bench, in a process of its own: its CPU, memory and compiled code are nobody else's.

export type CaseKind = 'hand-per-event' | 'hand-best' | 'svc' | 'svc-sync';

export interface CaseSetup extends Target {
  readonly kind: CaseKind;
  readonly client: string;
}

export interface Order {
  readonly events: number;
  /** Left out: as fast as it goes. */
  readonly perSecond?: number;
}

export interface Run {
  readonly seconds: number;
  readonly cpuUs: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Most that the process has had in memory so far. */
  readonly rssMb: number;
}

interface Case {
  run(order: Order): Promise<number[]>;
  close(): Promise<void>;
}

const syncCallers = 256;
const window = 4_096;
const perEventWindow = 256;

async function open(setup: CaseSetup): Promise<Case> {
  const { kind } = setup;
  if (kind === 'svc' || kind === 'svc-sync') return openSvc(setup);
  const { client } = (await import(`./clients/${setup.client}.ts`)) as { client: BenchClient };
  const hand = kind === 'hand-best' ? client.best(setup) : client.perEvent(setup);
  await hand.connect();
  const taker: Taker = {
    publish: (onAck) => hand.publish(onAck),
    outstanding: () => hand.outstanding,
  };
  return {
    run: runAsync(taker, kind === 'hand-best' ? window : perEventWindow),
    close: () => hand.close(),
  };
}

function openSvc({ kind, client, brokers, topic }: CaseSetup): Case {
  const { createOrder, service } = svcOnKafka({ client, brokers, topic, asyncMode: kind === 'svc' });
  const taker: Taker = {
    publish(onAck) {
      if (onAck === undefined) void createOrder();
      // In async mode a captured call tells nobody of its end.
      else void service.producer.publish(payload, { eventType: 'ORDER_CREATED' }).then(onAck);
    },
    outstanding: () => service.pending(),
  };
  return {
    run:
      kind === 'svc'
        ? runAsync(taker, window)
        : ({ events, perSecond }) =>
            perSecond === undefined
              ? callers(createOrder, events, syncCallers)
              : paced(syncTaker(createOrder, service.pending), events, perSecond),
    close: () => service.stop(10_000),
  };
}

function syncTaker(createOrder: () => Promise<unknown>, outstanding: () => number): Taker {
  return { publish: (onAck) => void createOrder().then(onAck), outstanding };
}

function runAsync(taker: Taker, max: number): Case['run'] {
  return ({ events, perSecond }) =>
    perSecond === undefined ? flood(taker, events, max) : paced(taker, events, perSecond);
}

async function measure(one: Case, order: Order): Promise<Run> {
  const before = process.cpuUsage();
  const started = performance.now();
  const latencies = await one.run(order);
  const seconds = (performance.now() - started) / 1000;
  const { user, system } = process.cpuUsage(before);
  return {
    seconds,
    cpuUs: user + system,
    p50Ms: quantile(latencies, 0.5),
    p99Ms: quantile(latencies, 0.99),
    rssMb: process.resourceUsage().maxRSS / 1024,
  };
}

const one = await open(JSON.parse(process.argv[2] as string) as CaseSetup);
process.on('message', async (order: Order | 'end') => {
  if (order === 'end') {
    await one.close();
    process.disconnect();
    return;
  }
  process.send?.(await measure(one, order));
});
process.send?.('ready');
