import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { publishEvent } from '../../src/capture/declare/publish-event.ts';
import type { BenchClient } from './bench-client.ts';
import { type AppUsage, eventsPerRequest, type HttpAppSetup } from './http-app-messages.ts';
import { payload } from './payload.ts';
import { svcOnKafka } from './svc-on-kafka.ts';

// A server whose every request calls five functions of an application. With svc, or by hand, each call is an event.

interface Application {
  readonly createOrder: () => Promise<unknown>;
  close(): Promise<void>;
}

async function open({ publisher }: HttpAppSetup): Promise<Application> {
  const order = async (): Promise<unknown> => payload;
  if (publisher === undefined) {
    return { createOrder: publishEvent({ eventType: 'ORDER_CREATED' }, order), close: async () => {} };
  }
  if (publisher.kind === 'svc') {
    const { createOrder, service } = svcOnKafka({ ...publisher, asyncMode: true });
    return { createOrder, close: () => service.stop(10_000) };
  }
  const { client } = (await import(`./clients/${publisher.client}.ts`)) as { client: BenchClient };
  const hand = client.best(publisher);
  await hand.connect();
  const createOrder = async (): Promise<unknown> => {
    const created = await order();
    hand.publish();
    return created;
  };
  return { createOrder, close: () => hand.close() };
}

const application = await open(JSON.parse(process.argv[2] as string) as HttpAppSetup);

const server = createServer(async (_request, response) => {
  let order: unknown;
  for (let call = 0; call < eventsPerRequest; call++) order = await application.createOrder();
  const body = JSON.stringify(order);
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) });
  response.end(body);
});

/** A timer of a millisecond looks how late it is. */
const delays = monitorEventLoopDelay({ resolution: 1 });
delays.enable();

// svc encodes in generators, a part of a large batch in each turn.
let encodingMax = 0;
const generators = Object.getPrototypeOf(function* () {}).prototype as Generator;
const { next } = generators;
generators.next = function timed(...args) {
  const start = performance.now();
  try {
    return next.apply(this, args);
  } finally {
    encodingMax = Math.max(encodingMax, performance.now() - start);
  }
};

process.on('message', async (message) => {
  if (message === 'usage') {
    const { user, system } = process.cpuUsage();
    const usage = {
      ...{ cpuUs: user + system, encodingMax },
      ...{ delayP99: delays.percentile(99) / 1e6, delayMax: delays.max / 1e6 },
    };
    delays.reset();
    encodingMax = 0;
    process.send?.(usage satisfies AppUsage);
    return;
  }
  server.closeAllConnections();
  server.close();
  await application.close();
  process.disconnect();
});
// The load keeps its connections, used or not.
server.keepAliveTimeout = 0;
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }));
