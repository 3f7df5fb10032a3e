/** What of kafkajs' class for bytes that are written is used here. */
export interface KafkajsEncoder {
  readonly buffer: Buffer;
  writeEncoder(value: unknown): unknown;
}

/** For the head of a request: lengths, numbers, and the client id, which is as long as the application likes. */
export const frameRoom = 1024;

/**
 * A request, made from its end to its beginning: what kafkajs would copy it behind is written into the room in front of it.
 * Looks like an encoder of kafkajs, as far as one is read.
 */
export class RequestFrame {
  readonly buffer: Buffer;
  /** Bytes in front of `buffer` that are its own. */
  private readonly room: number;

  constructor(buffer: Buffer, room: number) {
    this.buffer = buffer;
    this.room = room;
  }

  get buf(): Buffer {
    return this.buffer;
  }

  size(): number {
    return this.buffer.length;
  }

  behind(head: Buffer): RequestFrame {
    const { buffer, room } = this;
    if (head.length > room) return new RequestFrame(Buffer.concat([head, buffer]), 0);
    const start = buffer.byteOffset - head.length;
    const whole = Buffer.from(buffer.buffer, start, head.length + buffer.length);
    whole.set(head);
    return new RequestFrame(whole, room - head.length);
  }
}

/**
 * kafkajs copies each request twice, into buffers up to twice its size that are cleared before. The garbage of that alone
 * made Node collect the old generation again and again, with 5 to 20 ms each in which no request of the application moves.
 */
export function patchEncoder(prototype: KafkajsEncoder): void {
  const { writeEncoder } = prototype;
  prototype.writeEncoder = function (value) {
    return value instanceof RequestFrame ? value.behind(this.buffer) : writeEncoder.call(this, value);
  };
}
