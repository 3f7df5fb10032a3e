import { AnswerReader, int32, text } from './bytes.ts';
import { checkCode, type KafkaRequest } from './kafka-request.ts';

/** What Kafka knows a producer by that is idempotent. */
export interface ProducerId {
  readonly id: bigint;
  readonly epoch: number;
}

/** Any broker answers it. */
export const producerIdRequest: KafkaRequest<ProducerId> = {
  ...{ key: 22, name: 'InitProducerId', oldest: 0, newest: 1 },
  throttle: { at: 'start', from: 1 },
  // No transactions, and so no time for them.
  write: () => [text(null), int32(-1)],
  read(bytes) {
    const answer = new AnswerReader(bytes);
    answer.skip(4); // How long to hold further requests.
    checkCode(answer.int16());
    return { id: answer.int64(), epoch: answer.int16() };
  },
};
