import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { publishEvent } from '../../src/capture/publish-event.ts';
import { payload } from './payload.ts';
import { svcOnKafka } from './svc-on-kafka.ts';

// A server whose every request calls five functions of an application. With svc, each call is an event.

export interface HttpAppSetup {
  /** `undefined`: without svc. */
  readonly svc?: { readonly brokers: readonly string[]; readonly topic: string };
}

const eventsPerRequest = 5;

const { svc } = JSON.parse(process.argv[2] as string) as HttpAppSetup;
const running = svc === undefined ? undefined : svcOnKafka({ ...svc, client: 'kafkajs', asyncMode: true });
const createOrder = running?.createOrder ?? publishEvent({ eventType: 'ORDER_CREATED' }, async () => payload);

const server = createServer(async (_request, response) => {
  let order: unknown;
  for (let call = 0; call < eventsPerRequest; call++) order = await createOrder();
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
  await running?.service.stop(10_000);
  process.disconnect();
});
// The load keeps its connections, used or not.
server.keepAliveTimeout = 0;
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }));
