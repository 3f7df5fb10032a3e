import { publishEvent } from '../../src/capture/declare/publish-event.ts';
import { loadConfig } from '../../src/config/read/load.ts';
import { useLogger } from '../../src/observe/logger.ts';
import { type Service, start } from '../../src/start/start.ts';
import type { Target } from './bench-client.ts';
import { payload } from './payload.ts';

export interface SvcOptions extends Pick<Target, 'brokers' | 'topic'> {
  readonly client: string;
  readonly asyncMode: boolean;
}

export interface SvcOnKafka {
  /** A captured function: its call is an event. */
  readonly createOrder: () => Promise<unknown>;
  readonly service: Service;
}

/** svc as an application gets it, with its defaults. What it has to say beyond the start ends the measurement. */
export function svcOnKafka({ brokers, topic, client, asyncMode }: SvcOptions): SvcOnKafka {
  const broker = { client, bootstrapServers: brokers, topic, asyncMode };
  const { config, problems } = loadConfig({
    env: {},
    code: {
      svc: { service: { name: 'orders', version: '1.4.0' }, broker },
      management: { server: { port: 0 } },
    },
  });
  if (problems.length > 0) throw new Error(problems.map(({ message }) => message).join('\n'));
  const complain = (message: string): void => {
    throw new Error(message);
  };
  useLogger({ debug() {}, info() {}, warn: complain, error: complain });
  const service = start(config);
  const createOrder = publishEvent({ eventType: 'ORDER_CREATED' }, async () => payload);
  return { createOrder, service };
}
