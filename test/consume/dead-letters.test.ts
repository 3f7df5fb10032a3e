import assert from 'node:assert/strict';
import { type DeadLetterOptions, deadLettersTo } from '../../src/consume/handle-event.ts';

interface Message {
  readonly key: string | Buffer | null;
  readonly value: Buffer;
  readonly headers: Record<string, string> | Map<Buffer, Buffer>;
}

/** Fails as the client does where its broker refuses a record of more bytes than these. */
function producerOf(client: 'kafkajs' | 'platformatic', maxBytes: number, sent: Message[], other?: Error) {
  const take = ({ messages }: { messages: Message[] }): void => {
    for (const message of messages) {
      const headers = message.headers instanceof Map ? [...message.headers] : Object.entries(message.headers);
      const bytes = headers.reduce(
        (sum, [name, value]) => sum + name.length + value.length,
        message.value.length + (message.key?.length ?? 0),
      );
      if (other !== undefined) throw other;
      if (bytes > maxBytes)
        throw client === 'kafkajs'
          ? Object.assign(new Error('The request included a message larger than the max message size'), {
              name: 'KafkaJSProtocolError',
              type: 'MESSAGE_TOO_LARGE',
            })
          : Object.assign(new AggregateError([]), {
              errors: [{ cause: { errors: [{ apiId: 'MESSAGE_TOO_LARGE' }] } }],
            });
      sent.push(message);
    }
  };
  const send = async (options: { messages: Message[] }): Promise<void> => take(options);
  return client === 'kafkajs'
    ? { send, sendBatch() {}, transaction() {} }
    : { send, initIdempotentProducer() {} };
}

describe('dead letters of a consumer', () => {
  const value = Buffer.from(JSON.stringify({ eventId: '1', eventType: 'A', payload: '"'.repeat(5_000) }));
  const record = { topic: 'orders', partition: 2, offset: 7n, key: 'k', value, headers: {}, timestamp: 1 };
  const cause = {
    eventId: '1',
    eventType: 'A',
    document: {},
    attempts: 1,
    cause: 'RefusedEvent',
    message: 'no',
  };

  for (const client of ['kafkajs', 'platformatic'] as const)
    for (const format of ['operations', 'recovery'] as const)
      for (const [maxBytes, holds] of [
        [1e6, 'all'],
        // The event itself takes 10,053 bytes; a letter more, in either format.
        [value.length + 30, 'place'],
        [value.length + (format === 'operations' ? 400 : 180), 'value'],
        [600, 'place'],
        [100, undefined],
      ] as const)
        it(`${client}, ${format}: of a topic that takes ${maxBytes} bytes it holds ${holds ?? 'nothing, and it says so'}`, async () => {
          const sent: Message[] = [];
          const options: DeadLetterOptions = {
            ...{ topic: 'dead', format, producer: producerOf(client, maxBytes, sent) },
          };
          const sending = deadLettersTo(options)(record, cause);
          if (holds === undefined) return assert.rejects(sending);
          assert.equal(await sending, holds);
          assert.equal(sent.length, 1);
          assert.equal(sent[0]?.value.equals(value), holds === 'value');
        });

  it('any other error is told, and no smaller form is tried', async () => {
    const sent: Message[] = [];
    const producer = producerOf('kafkajs', 1e6, sent, new Error('not connected'));
    await assert.rejects(deadLettersTo({ topic: 'dead', producer })(record, cause), /not connected/);
    assert.equal(sent.length, 0);
  });
});
