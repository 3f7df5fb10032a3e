// A program that consumes until its input says `stop`, and ends when nothing keeps it. Arguments: the brokers, the client, the group.

import { once } from 'node:events';
import { Consumer } from '@platformatic/kafka';
import kafkajs from 'kafkajs';
import { consumeOnce } from '../../src/consume/consume-once.ts';

const [brokers = '', client, groupId = ''] = process.argv.slice(2);
const bootstrapBrokers = brokers.split(',');

function consumer(): object {
  if (client === 'kafkajs')
    return new kafkajs.Kafka({ brokers: bootstrapBrokers, logLevel: kafkajs.logLevel.NOTHING }).consumer({
      groupId,
    });
  const groupProtocol = client?.endsWith('groupProtocol consumer') ? 'consumer' : 'classic';
  const consumer = new Consumer({ clientId: groupId, groupId, bootstrapBrokers, groupProtocol });
  if (client === 'platformatic that cannot leave') Object.assign(consumer, { close: failingOnce(consumer) });
  return consumer;
}

/** As if the group had no coordinator when the client leaves it: it sends no heartbeats, and stays open. */
function failingOnce(consumer: Consumer): Consumer['close'] {
  const close = consumer.close.bind(consumer) as (force: boolean) => Promise<void>;
  let calls = 0;
  return (async (force: boolean) => {
    if (++calls > 1) return close(force);
    void consumer.leaveGroup(true);
    throw new Error('NOT_COORDINATOR');
  }) as Consumer['close'];
}

const consumption = await consumeOnce({
  ...{ consumer: consumer(), topics: ['orders'], handlers: { ORDER_PLACED: () => {} } },
  inbox: { consumer: groupId, once: async () => true } as never,
});
console.log('consumes');
await once(process.stdin, 'data');
await consumption.stop(2_000);
console.log('stopped');
process.stdin.destroy();
