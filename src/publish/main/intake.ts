import type { Clock } from '../../ground/clock.ts';
import type { Logger } from '../../observe/logger.ts';
import { createQuietLog } from '../../observe/quiet-log.ts';
import type { SerializedEvent } from '../../serialize/serializer.ts';
import type { SendFailure } from '../broker.ts';
import { createMemory, type Memory, type MemoryLimits } from '../memory-limits.ts';
import { type Breaker, breakerOpen } from './breaker.ts';
import { QueuedEvent } from './queued-event.ts';
import { bytesOf } from './record.ts';

export interface IntakeOptions {
  readonly buffer: MemoryLimits;
  readonly deliveryTimeoutMs: number;
  readonly breaker: Breaker;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The event that tested the cluster has its end, and the cluster is away still. */
  readonly onProbeFailed: () => void;
}

/** Who may come in: the room in memory, and what the breaker says. */
export interface Intake {
  readonly memory: Pick<Memory, 'events' | 'bytes' | 'overflows'>;
  /** Takes the event, or says why not. */
  admit(event: SerializedEvent, topic: string): QueuedEvent | SendFailure;
  /** Called once for each event that was taken, when it has its end. */
  release(queued: QueuedEvent): void;
}

export function createIntake(options: IntakeOptions): Intake {
  const { deliveryTimeoutMs, breaker, clock, logger, onProbeFailed } = options;
  const memory = createMemory(options.buffer);
  const sayFull = createQuietLog(logger, clock, { level: 'warn', saysLeftOut: false });
  /** The event that tests the cluster, while it does. */
  let probe: QueuedEvent | undefined;

  /** It must not get to the next tier, or its topic, before an earlier event of its key has. */
  function isBehindProbe({ key }: SerializedEvent, topic: string): boolean {
    return probe !== undefined && probe.event.key === key && probe.topic === topic;
  }

  function afterProbe(): void {
    probe = undefined;
    if (breaker.state !== 'CLOSED') onProbeFailed();
  }

  function bufferFull(): SendFailure {
    const { maxEvents, maxBytes } = options.buffer;
    const message = `${memory.events} events of ${memory.bytes} bytes are waiting in memory (at most ${maxEvents} events of ${maxBytes} bytes: svc.broker.buffer)`;
    sayFull('', `events go to the next tier, because ${message}`);
    return { kind: 'retriable', cause: 'BufferFull', message };
  }

  return {
    memory,
    admit(event, topic) {
      const bytes = bytesOf(event);
      // Room first: a probe that finds none would leave the breaker waiting.
      if (!memory.take(bytes)) return bufferFull();
      const admission = breaker.admit();
      if (admission === 'refused' && !isBehindProbe(event, topic)) {
        memory.give(bytes);
        return breakerOpen;
      }
      const isProbe = admission === 'probe';
      const admitted = { atMs: clock.monotonic(), deliveryTimeoutMs, isProbe };
      const queued = new QueuedEvent(event, topic, bytes, admitted);
      if (isProbe) probe = queued;
      return queued;
    },
    release(queued) {
      memory.give(queued.bytes);
      if (queued.isProbe) breaker.probeGone();
      // When its whole batch is settled, those of its key that wait behind it.
      if (queued === probe) void Promise.resolve().then(afterProbe);
    },
  };
}
