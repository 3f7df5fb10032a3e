// protocol/: requests of Kafka's protocol and their answers, as svc itself writes and reads them, whatever the client is.

import { AnswerReader, int16 } from './bytes.ts';
import { errorName } from './error-names.ts';

/** One request, in the versions that svc knows: before Kafka's "flexible" ones, which say the same in another form. */
export interface KafkaRequest<T> {
  readonly key: number;
  readonly name: string;
  readonly oldest: number;
  readonly newest: number;
  /** In pieces, so that a batch is not copied. */
  write(version: number): readonly Buffer[];
  /** Where its answer says for how long nothing is to be written (a quota), and from which version on the client is to wait by itself. */
  readonly throttle?: { readonly at: 'start' | 'end'; readonly from: number } | undefined;
  /** Throws a {@link ProtocolError}. Left out: the broker does not answer. */
  readonly read?: ((answer: Buffer, version: number) => T) | undefined;
}

/** What Kafka refuses, by its own name for it. */
export class ProtocolError extends Error {
  /** Such as `UNKNOWN_TOPIC_OR_PARTITION`. */
  readonly type: string;

  constructor(code: number) {
    super('refused by Kafka');
    this.type = errorName(code);
  }
}

/** Throws where the code is an error. */
export function checkCode(code: number): void {
  if (code !== 0) throw new ProtocolError(code);
}

/** Milliseconds for which the broker wants nothing more; 0 where it does not say, or has waited itself. */
export function throttleIn(
  { throttle }: Pick<KafkaRequest<unknown>, 'throttle'>,
  answer: Buffer,
  version: number,
): number {
  if (throttle === undefined || version < throttle.from || answer.length < 4) return 0;
  return answer.readInt32BE(throttle.at === 'start' ? 0 : answer.length - 4);
}

/** What a broker understands: key of a request -> its oldest and newest version. */
export type Versions = ReadonlyMap<number, readonly [oldest: number, newest: number]>;

/** In the version that every Kafka answers. */
export const versionsRequest: KafkaRequest<Versions> = {
  ...{ key: 18, name: 'ApiVersions', oldest: 0, newest: 0 },
  write: () => [],
  read(bytes) {
    const answer = new AnswerReader(bytes);
    checkCode(answer.int16());
    return new Map(answer.list(() => [answer.int16(), [answer.int16(), answer.int16()]] as const));
  },
};

/** Whatever it is that was answered: all that is read is whether it was refused. */
export function readRefusal(bytes: Buffer): void {
  const answer = new AnswerReader(bytes);
  answer.skip(4); // How long to hold further requests.
  checkCode(answer.int16());
}

/** The head of a request, without its length. */
export function requestHead(key: number, version: number, id: number, clientId: Buffer): Buffer {
  const head = Buffer.allocUnsafe(14 + clientId.length);
  head.writeInt16BE(key, 4);
  head.writeInt16BE(version, 6);
  head.writeInt32BE(id, 8);
  head.set(int16(clientId.length), 12);
  head.set(clientId, 14);
  return head;
}
