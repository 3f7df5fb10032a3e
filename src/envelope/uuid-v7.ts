import { nodeCrypto } from '../ground/builtins.ts';
import { type Clock, systemClock } from '../ground/clock.ts';
import { SvcError } from '../ground/errors.ts';
import { bitsBelowMs } from '../ground/event-id.ts';

const maxMs = 2 ** 48 - 1;
const maxCounter = 2 ** bitsBelowMs - 1;
/** Of random bits an id: one hexadecimal digit in the fourth group, twelve in the last. */
const slotDigits = 14;
const slots = 512;

export interface UuidV7Options {
  /** Default: the system clock. */
  readonly clock?: Clock | undefined;
  /** Fills with random bytes. Default: the system's, through `node:crypto`. */
  readonly fill?: ((bytes: Buffer) => void) | undefined;
}

/**
 * Makes UUIDs of version 7 (RFC 9562): 48 bits of milliseconds, a counter of 22 bits that begins at random in each (its
 * section 6.2, method 1), 52 random bits. Each is greater than the one before, as text too.
 *
 * Never waits, and never goes back: a clock that steps back, however far, or more than the counter holds, count on from the
 * last id. `next` throws `SVC_ENVELOPE_CLOCK_OUT_OF_RANGE` for a clock before 1970 or after 10889.
 */
export function createUuidV7(options: UuidV7Options = {}): { next(): string } {
  const { clock = systemClock } = options;
  const fill = options.fill ?? ((bytes: Buffer): void => void nodeCrypto().randomFillSync(bytes));
  /** `000` to `fff`: looking digits up costs less than writing a number. */
  const threeDigits = Array.from({ length: 0x1000 }, (_, value) => value.toString(16).padStart(3, '0'));
  const pool = Buffer.alloc((slots * slotDigits) / 2);
  let digits = '';
  let at = slots * slotDigits;
  let timestampMs = Number.NEGATIVE_INFINITY;
  let counter = 0;
  /** The upper 32 bits of the time last a minute. */
  let timedMinute = Number.NaN;
  let timeText = '';
  /** `019c5e1f-3c80-7` */
  let prefix = '';

  return { next };

  function next(): string {
    const nowMs = Math.floor(clock.now());
    // Written so that a clock that says NaN is refused too.
    if (!(nowMs <= timestampMs)) start(nowMs);
    else if (++counter > maxCounter) start(timestampMs + 1);
    const random = takeSlot();
    const upper = threeDigits[counter >>> 10] as string;
    const lower = threeDigits[0x800 | (counter & 0x3ff)] as string;
    return `${prefix}${upper}-${lower}${digits.slice(random, random + 1)}-${digits.slice(random + 1, random + 13)}`;
  }

  function start(atMs: number): void {
    if (!(atMs >= 0 && atMs <= maxMs)) throw clockOutOfRange();
    const minute = Math.floor(atMs / 0x10000);
    const rest = atMs - minute * 0x10000;
    if (minute !== timedMinute) {
      timedMinute = minute;
      timeText = minute.toString(16).padStart(8, '0');
    }
    timestampMs = atMs;
    prefix = `${timeText}-${(rest >>> 12).toString(16)}${threeDigits[rest & 0xfff]}-7`;
    const random = takeSlot() / 2;
    counter = pool.readUInt32LE(random) & maxCounter;
  }

  function takeSlot(): number {
    if (at === slots * slotDigits) {
      fill(pool);
      digits = pool.toString('hex');
      at = 0;
    }
    const slot = at;
    at += slotDigits;
    return slot;
  }
}

function clockOutOfRange(): SvcError {
  return new SvcError(
    'SVC_ENVELOPE_CLOCK_OUT_OF_RANGE',
    'event ids need a clock between 1970-01-01 and 10889-08-02',
  );
}
