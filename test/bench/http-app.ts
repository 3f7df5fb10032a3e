import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { publishEvent } from '../../src/capture/declare/publish-event.ts';
import type { BenchClient, Target } from './bench-client.ts';
import { payload } from './payload.ts';
import { svcOnKafka } from './svc-on-kafka.ts';

// A server whose every request calls five functions of an application. With svc, or by hand, each call is an event.

export interface HttpAppSetup {
  /** `undefined`: no event is published. */
  readonly publisher?: Target & { readonly kind: 'svc' | 'hand-best'; readonly client: string };
}

interface Application {
  readonly createOrder: () => Promise<unknown>;
  close(): Promise<void>;
}

const eventsPerRequest = 5;

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

process.on('message', async (message) => {
  if (message === 'cpu') {
    const { user, system } = process.cpuUsage();
    process.send?.({ cpuUs: user + system });
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
