export function int16(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(2);
  bytes.writeInt16BE(value);
  return bytes;
}

export function int32(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(4);
  bytes.writeInt32BE(value);
  return bytes;
}

export function text(value: string | null): Buffer {
  if (value === null) return int16(-1);
  const bytes = Buffer.from(value, 'utf8');
  return Buffer.concat([int16(bytes.length), bytes]);
}

export function blob(bytes: Buffer): Buffer {
  return Buffer.concat([int32(bytes.length), bytes]);
}

export function list<T>(items: readonly T[], write: (item: T) => Buffer): Buffer {
  return Buffer.concat([int32(items.length), ...items.map(write)]);
}

/** Reads an answer from its beginning to its end. Throws a RangeError where it is shorter than it says. */
export class AnswerReader {
  private readonly bytes: Buffer;
  private at = 0;

  constructor(bytes: Buffer) {
    this.bytes = bytes;
  }

  skip(length: number): number {
    this.at += length;
    return this.at - length;
  }

  int16(): number {
    return this.bytes.readInt16BE(this.skip(2));
  }

  int32(): number {
    return this.bytes.readInt32BE(this.skip(4));
  }

  int64(): bigint {
    return this.bytes.readBigInt64BE(this.skip(8));
  }

  text(): string | null {
    const length = this.int16();
    return length < 0 ? null : this.bytes.toString('utf8', this.skip(length), this.at);
  }

  blob(): Buffer {
    const start = this.skip(this.int32());
    return this.bytes.subarray(start, this.at);
  }

  list<T>(read: () => T): T[] {
    return Array.from({ length: Math.max(0, this.int32()) }, read);
  }
}
