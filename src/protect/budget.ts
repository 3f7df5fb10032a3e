import { isTooBig, maxBigIntBits } from '../ground/bounds.ts';
import { type ErrorCode, SvcError } from '../ground/errors.ts';

/** Payloads of more values than this are refused. */
export const maxNodes = 100_000;
/** Values of one event that are encrypted or hashed. Each takes 3 to 10 us, so that more would block the process. */
export const maxSealed = 10_000;
/** UTF-16 units of one event that are protected, or searched for marked values; and that come out of protecting them. */
export const maxText = { before: 4_194_304, after: 8_388_608 };
/** Bytes of typed arrays and buffers, which are published as Base64. */
export const maxRawBytes = 16_777_216;
/** From the first look at the clock, which small events never have. Far above what the limits above need. */
export const maxTimeMs = 2_000;
/** Looking at the clock takes as long as reading several values. */
const nodesBetweenLooks = 128;

/** What one event may cost. Each method throws when there is no more of it. */
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

  /** For values that are about to be read. */
  spend(nodes: number): void {
    this.nodes += nodes;
    if (this.nodes < this.lookAt) return;
    if (this.nodes > maxNodes) throw tooLarge();
    this.lookAt = this.nodes + nodesBetweenLooks;
    this.look();
  }

  /** How many values more may be read. */
  get left(): number {
    return maxNodes - this.nodes;
  }

  /** For a text that is protected, or searched. */
  spendText(length: number): void {
    this.text += length;
    if (this.text > maxText.before)
      throw exceeded(`protecting the event takes more than ${maxText.before} characters of marked values`);
    if (++this.protected % nodesBetweenLooks === 0) this.look();
  }

  /** For a text that was decoded from another one. Decoding a long text takes long, so the clock is asked each time. */
  spendReading(length: number): void {
    this.spendText(length);
    this.look();
  }

  /** For a value that is about to be encrypted or hashed. */
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

/** The text of a number; throws for one that would take long to write. */
export function textOfBigInt(value: bigint): string {
  if (!isTooBig(value)) return value.toString();
  throw refusal('SVC_PROTECT_TOO_LARGE', `the payload holds a BigInt of more than ${maxBigIntBits} bits`);
}

function exceeded(message: string): Error {
  return refusal('SVC_PROTECT_BUDGET', message);
}

const own = new WeakSet<SvcError>();

/** A reason to refuse an event. Its message names no value, and no key of the payload. */
export function refusal(code: ErrorCode, message: string): SvcError {
  const error = new SvcError(code, message);
  own.add(error);
  return error;
}

/** Lets an error of the sealer pass: it is known to name no value. */
export function trusted(error: SvcError): SvcError {
  own.add(error);
  return error;
}

export function isRefusal(error: unknown): error is SvcError {
  return error instanceof SvcError && own.has(error);
}

/** What reading the payload threw, as an error that may be shown: an SvcError of the application's own making is none. */
export function asRefusal(error: unknown): SvcError {
  if (isRefusal(error)) return error;
  return refusal(
    'SVC_PROTECT_READ_ERROR',
    'a getter, toJSON or proxy of the payload threw while it was read',
  );
}
