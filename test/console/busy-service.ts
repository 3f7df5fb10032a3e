import type { Controls } from '../../src/manage/controls.ts';
import { startManagementServer } from '../../src/manage/server.ts';
import type { ConsoleDocument } from '../../src/manage/views.ts';
import { useLogger } from '../../src/observe/logger.ts';
import { type Outcome, outcomes } from '../../src/observe/outcomes.ts';
import { fakeControls } from '../manage/fake-controls.ts';
import { defaultOptions } from '../manage/server-harness.ts';

// A made-up shop after a bad half hour: what a page looks like that has all parts of it.

/** Between 0 and 1, the same at each run. */
function noise(seed: number): number {
  const value = Math.sin(seed * 12.9898) * 43_758.5453;
  return value - Math.floor(value);
}

const steps = 360;
/** Steps of an outage of the broker, and those in which the backup is emptied after it. */
const outage = (step: number): boolean => step > 205 && step <= 226;
const comesBack = (step: number): boolean => step > 226 && step <= 238;

function hour(nowMs: number): ConsoleDocument['history'] {
  const all = Array.from({ length: steps }, (_, step) => step);
  const calls = all.map((step) => Math.round(420 + 140 * Math.sin(step / 55) + 60 * noise(step)));
  let backup = 0;
  const waiting = all.map((step) => {
    if (outage(step)) backup += calls[step] as number;
    else if (comesBack(step)) backup = Math.max(0, backup - 900);
    else backup = 0;
    return backup;
  });
  const failed = all.map((step) => (outage(step) ? (calls[step] as number) : step % 97 === 40 ? 2 : 0));
  const slow = (step: number): number => (comesBack(step) ? 3.4 : 1);
  return {
    atMs: all.map((step) => nowMs - (steps - 1 - step) * 10_000),
    seconds: all.map(() => 10),
    published: all.map((step) => (calls[step] as number) - (failed[step] as number)),
    failed,
    meanMs: all.map((step) => (outage(step) ? null : (7 + 3 * noise(step + 5)) * slow(step))),
    p95Ms: all.map((step) => (outage(step) ? null : (22 + 16 * noise(step + 9)) * slow(step))),
    queued: all.map((step) => Math.round(outage(step) ? 240 : 3 + 9 * noise(step + 2))),
    backup: waiting,
    outbox: all.map((step) => Math.round(20 + 30 * noise(step + 3))),
    circuit: all.map((step) => (outage(step) ? 1 : 0)),
  };
}

const target = (name: string, calls: number, more: object = {}) => ({
  ...{ target: name, state: 'patched', calls, failed: 0, skipped: 0 },
  ...more,
});

function types(): ConsoleDocument['types'] {
  return [
    ['ORDER_PLACED', 81_204, 31, 2, 8.2, 412],
    ['PAYMENT_TAKEN', 64_871, 24, 0, 7.4, 388.1],
    ['STOCK_RESERVED', 52_390, 12, 1, 9.9, 640.7],
    ['ORDER_SHIPPED', 21_440, 0, 0, 6.8, 120.3],
    ['CUSTOMER_CHANGED', 3_122, 4, 0, 7.1, 96],
    ['INVOICE_SENT', 1_940, 0, 0, 11.2, 204.9],
  ].map(([eventType, published, failed, deadLetters, meanMs, maxMs]) => ({
    ...{ eventType, published, failed, deadLetters, meanMs, maxMs },
  })) as ConsoleDocument['types'];
}

/** The last ten minutes of each type: some steady, one that has ended, one that comes and goes. */
function trends(): ConsoleDocument['trends'] {
  const shares = [0.36, 0.29, 0.23, 0.1, 0.014, 0.009];
  return types().map(({ eventType }, type) => ({
    eventType,
    events: Array.from({ length: 60 }, (_, step) => {
      const busy = 1 + 0.35 * Math.sin((step + type * 17) / 9) + 0.3 * noise(step * 7 + type);
      const isQuiet = (type === 3 && step > 38) || (type === 5 && step % 14 > 4);
      return isQuiet ? 0 : Math.round(430 * (shares[type] ?? 0) * busy);
    }),
  }));
}

/** As the console of a process would have it; each call is two seconds of traffic later. */
export function busyDocument(nowMs: number, afterMs = 0): object {
  const seconds = Math.floor(nowMs / 1_000) % 100_000;
  const history = hour(Math.floor(nowMs / 10_000) * 10_000);
  const from = history.atMs.findIndex((ms) => ms > afterMs);
  const outbox = {
    ...{ status: 'UP', circuitBreakerState: 'CLOSED', consecutiveFailures: 0, timeSinceLastSuccessMs: 240 },
    ...{ totalPending: 34, totalFailed: 0, oldestPendingMs: 1_800 },
  };
  const dead = (minutes: number, eventType: string, failureReason: string) => ({
    ...{ eventType, failureReason, timestamp: new Date(nowMs - minutes * 60_000).toISOString() },
  });
  return {
    atMs: nowMs,
    process: {
      ...{ service: { name: 'shop-orders', version: '4.12.0' }, svc: { version: '0.1.0' } },
      ...{ host: 'orders-7f6c9d', pid: 4711, node: '24.21.0', environment: 'production', upSeconds: 187_400 },
    },
    health: {
      status: 'UP',
      details: {
        state: 'WARNING',
        findings: [
          'WARNING: 3 dead letters in the last five minutes. See the reasons: npx --no svc dlq list. Send them: npx --no svc dlq recover',
        ],
        ...{ brokerProducerInitialized: true, clusterId: 'MkU3OEVBNTcwNTJENDM2Qk', nodeCount: 3 },
        ...{ topic: 'shop.orders.v1', dlqTopic: 'shop.orders.dlq.v1', outbox },
        keys: [{ provider: 'aws-kms', keyId: 'customers', status: 'UP' }],
      },
    },
    counts: {
      ...(Object.fromEntries(outcomes.map((outcome) => [outcome, 0])) as Record<Outcome, number>),
      ...{ calls: 225_049 + seconds * 43, published: 204_967 + seconds * 41, dlq: 3, backup: 12_400 },
      ...{ outbox: 20_076 + seconds * 2, rolled_back: 41, inFlight: 9, retries: 118 },
      ...{ dlqFailures: 0, relayed: 20_042 + seconds * 2, gaveUp: 0 },
    },
    queue: { events: 9, bytes: 8_210, overflows: 0 },
    backup: { files: 0, events: 0, bytes: 0, tooLarge: 0, drained: 12_400, oldestMs: 0 },
    breakers: { broker: 'CLOSED', outbox: 'CLOSED' },
    connections: { connectionCount: 3, inFlightRequests: 2, requestLatencyAvg: 4.1 },
    ...{ types: types(), typeCount: 6, trends: from < 0 ? [] : trends() },
    targets: [
      target('./src/orders/order-service.ts#OrderService.prototype.place', 81_235),
      target('./src/payments/take-payment.ts#takePayment', 64_895, { failed: 212 }),
      target('./src/stock/stock.ts#Stock.prototype.reserve', 52_403, { skipped: 17 }),
      target('./src/shipping/ship.ts#ship', 21_440),
      target('./src/customers/profile.ts#changeProfile', 3_126),
      target('./src/invoices/send.ts#sendInvoice', 1_940, {
        notes: ['Its second parameter has no name: it is arg1 in expressions.'],
      }),
      target('./src/returns/refund.ts#refund', 0, {
        state: 'pending',
        reason: 'The module is not loaded yet.',
      }),
    ],
    deadLetters: {
      waiting: 3,
      recent: [
        dead(
          2,
          'ORDER_PLACED',
          'RecordTooLargeException: the record has 1,204,118 bytes, and the topic takes 1,048,588',
        ),
        dead(3, 'STOCK_RESERVED', 'TopicAuthorizationException: not allowed to write to shop.stock.v1'),
        dead(
          4,
          'ORDER_PLACED',
          'RecordTooLargeException: the record has 1,190,002 bytes, and the topic takes 1,048,588',
        ),
      ],
    },
    history: Object.fromEntries(
      Object.entries(history).map(([name, column]) => [name, from < 0 ? [] : column.slice(from)]),
    ),
    runs: { deadLetters: { run: null, dryRun: null }, backup: { run: null, dryRun: null } },
  };
}

export interface BusyOptions {
  readonly server?: Partial<Parameters<typeof startManagementServer>[0]>;
  readonly controls?: Partial<Controls>;
  readonly change?: (document: ConsoleDocument) => object;
}

/** A management server whose console shows it. */
export async function startBusyService({ server: options, controls, change }: BusyOptions = {}) {
  const log = (): void => {};
  const shown = (document: object): object => change?.(document as ConsoleDocument) ?? document;
  const logger = { debug: log, info: log, warn: log, error: log };
  useLogger(logger);
  const server = await startManagementServer(
    { ...defaultOptions, ...options },
    fakeControls({ console: async (afterMs) => shown(busyDocument(Date.now(), afterMs)), ...controls }),
    true,
  );
  if (server === undefined) throw new Error('no management server');
  const { port, close } = server;
  return { port, close, address: `http://127.0.0.1:${port}/actuator/svc` };
}
