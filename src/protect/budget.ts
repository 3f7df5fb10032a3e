import { isTooBig, maxBigIntBits } from '../ground/bounds.ts';
import { type ErrorCode, SvcError } from '../ground/errors.ts';

export const maxNodes = 100_000;
/** Values of one event that are encrypted or hashed. Each takes 3 to 10 us, so more would block the process. */
export const maxSealed = 10_000;
/** UTF-16 units of one event: `before` is protected or searched for marked values; `after` is the result. */
export const maxText = { before: 4_194_304, after: 8_388_608 };
/** Bytes of typed arrays and buffers, which are published as Base64. */
export const maxRawBytes = 16_777_216;
/** Counted from the first look at the clock. Small events never reach it. */
export const maxTimeMs = 2_000;
/** Reading the clock takes as long as reading several values. */
const nodesBetweenLooks = 128;

/** The limits of one event. Each method throws when its limit is exceeded. */
export class Budget {
  nodes = 0;
  private readonly monotonic: () => number;
  private lookAt = nodesBetweenLooks;
  private startedAt: number | undefined;
  private protected = 0;
  private sealed = 0;
  private text = 0;
  private result = 0;
  private rawBytes = 0;

  constructor(monotonic: () => number) {
    this.monotonic = monotonic;
  }

  spend(nodes: number): void {
    this.nodes += nodes;
    if (this.nodes < this.lookAt) return;
    if (this.nodes > maxNodes) throw tooLarge();
    this.lookAt = this.nodes + nodesBetweenLooks;
    this.look();
  }

  get left(): number {
    return maxNodes - this.nodes;
  }

  /** For a text that is protected or searched. */
  spendText(length: number): void {
    this.text += length;
    if (this.text > maxText.before)
      throw exceeded(`protecting the event takes more than ${maxText.before} characters of marked values`);
    if (++this.protected % nodesBetweenLooks === 0) this.look();
  }

  /** For a decoded text. Decoding a long text is slow, so the clock is read each time. */
  spendReading(length: number): void {
    this.spendText(length);
    this.look();
  }

  spendSeal(): void {
    if (++this.sealed > maxSealed)
      throw exceeded(`the event has more than ${maxSealed} values to encrypt or hash`);
  }

  spendResult(length: number): void {
    this.result += length;
    if (this.result > maxText.after)
      throw exceeded(`the encrypted values of the event take more than ${maxText.after} characters`);
  }

  spendRawBytes(length: number): void {
    this.rawBytes += length;
    if (this.rawBytes > maxRawBytes)
      throw refusal(
        'SVC_PROTECT_TOO_LARGE',
        `the payload holds more than ${maxRawBytes} bytes of binary data`,
      );
  }

  look(): void {
    const now = this.monotonic();
    this.startedAt ??= now;
    if (now - this.startedAt > maxTimeMs)
      throw exceeded(`reading and protecting the payload takes longer than ${maxTimeMs} ms`);
  }
}

export function tooLarge(): Error {
  return refusal('SVC_PROTECT_TOO_LARGE', `the payload holds more than ${maxNodes} values`);
}

/** The text of a number. Throws for a number that is slow to write. */
export function textOfBigInt(value: bigint): string {
  if (!isTooBig(value)) return value.toString();
  throw refusal('SVC_PROTECT_TOO_LARGE', `the payload holds a BigInt of more than ${maxBigIntBits} bits`);
}

function exceeded(message: string): Error {
  return refusal('SVC_PROTECT_BUDGET', message);
}

const own = new WeakSet<SvcError>();

/** A reason to refuse an event. The message must not name a value or a key of the payload. */
export function refusal(code: ErrorCode, message: string): SvcError {
  const error = new SvcError(code, message);
  own.add(error);
  return error;
}

/** Marks an error of the sealer as safe to show: its message names no value. */
export function trusted(error: SvcError): SvcError {
  own.add(error);
  return error;
}

export function isRefusal(error: unknown): error is SvcError {
  return error instanceof SvcError && own.has(error);
}

/** The error of reading a payload, safe to show. An `SvcError` that the application made itself is replaced. */
export function asRefusal(error: unknown): SvcError {
  if (isRefusal(error)) return error;
  return refusal(
    'SVC_PROTECT_READ_ERROR',
    'a getter, toJSON or proxy of the payload threw while it was read',
  );
}
