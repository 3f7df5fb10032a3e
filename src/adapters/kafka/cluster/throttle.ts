import { type Clock, systemClock } from '../../../ground/clock.ts';
import { createQuietLog } from '../../../observe/quiet-log.ts';
import type { HeldBack } from '../../../publish/broker.ts';
import { who } from '../failure-lines.ts';
import type { KafkaClientOptions } from '../kafka-client-options.ts';

/**
 * What brokers say of quotas (KIP-219): an answer tells for how long nothing is to be written, and until then its connection is not
 * read. So nothing is written to that broker over any connection, for each write over another one would make it longer.
 */
export interface Throttle {
  /** @param broker `host:port` @param request its name in Kafka's protocol */
  heard(broker: string, ms: number, request: string): void;
  /** On the monotonic clock; `-Infinity`: it never held this process back. */
  untilMs(broker: string): number;
  isHeld(broker: string): boolean;
  /** Resolves when it may be written to; `undefined`: it may now. The wait keeps no process alive. */
  over(broker: string): Promise<void> | undefined;
  /** The last that a broker has said, also when it is over; without `broker`: the one that ends last. */
  of(broker?: string): HeldBack | undefined;
}

const sayMs = 60_000;
/** A Kafka that says more has another unit in mind. */
const longestMs = 3_600_000;

export function createThrottle(
  options: Pick<KafkaClientOptions, 'logger' | 'clientId' | 'sasl'>,
  clock: Clock = systemClock,
): Throttle {
  const held = new Map<string, HeldBack>();
  const say = createQuietLog(options.logger, clock, {
    level: 'warn',
    intervalMs: sayMs,
    saysLeftOut: false,
  });

  const throttle: Throttle = {
    heard(broker, ms, request) {
      if (!(ms > 0)) return;
      const forMs = Math.min(ms, longestMs);
      const untilMs = clock.monotonic() + forMs;
      const message = lineOf(forMs, request, options);
      if (untilMs > throttle.untilMs(broker)) held.set(broker, { forMs, untilMs, message });
      say(quotaOf(request), message, { broker });
    },
    untilMs: (broker) => held.get(broker)?.untilMs ?? Number.NEGATIVE_INFINITY,
    isHeld: (broker) => throttle.untilMs(broker) > clock.monotonic(),
    over: (broker) => (throttle.isHeld(broker) ? wait(broker) : undefined),
    of(broker) {
      if (broker !== undefined) return held.get(broker);
      let last: HeldBack | undefined;
      for (const each of held.values()) if (last === undefined || each.untilMs > last.untilMs) last = each;
      return last;
    },
  };

  async function wait(broker: string): Promise<void> {
    for (;;) {
      const leftMs = throttle.untilMs(broker) - clock.monotonic();
      if (leftMs <= 0) return;
      await new Promise((resolve) => setTimeout(resolve, Math.ceil(leftMs)).unref());
    }
  }

  return throttle;
}

/** The quotas that Kafka counts a request in. The answer does not tell which of them it was. */
function quotaOf(request: string): string {
  if (request === 'Produce') return 'producer_byte_rate (or request_percentage)';
  return request === 'Metadata' ? 'request_percentage (or controller_mutation_rate)' : 'request_percentage';
}

function lineOf(
  forMs: number,
  request: string,
  options: Pick<KafkaClientOptions, 'clientId' | 'sasl'>,
): string {
  const client = `the client id "${options.clientId}"`;
  const user = options.sasl === undefined ? '' : ` or ${who(options as KafkaClientOptions)}`;
  return `Kafka holds events back for ${(forMs / 1_000).toFixed(1)} s, by the quota ${quotaOf(request)} of ${client}${user}: they wait in memory; raise the quota, or send less`;
}
