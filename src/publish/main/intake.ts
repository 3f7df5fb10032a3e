import type { Clock } from '../../ground/clock.ts';
import type { Logger } from '../../observe/logger.ts';
import { createQuietLog } from '../../observe/quiet-log.ts';
import type { SerializedEvent } from '../../serialize/serializer.ts';
import type { SendFailure } from '../broker.ts';
import { createMemory, type Memory, type MemoryLimits } from '../memory-limits.ts';
import { behindBackup } from '../order/key-order.ts';
import { QueuedEvent } from './batches/queued-event.ts';
import { type Breaker, breakerOpen } from './breaker.ts';
import { bytesOf } from './record.ts';

export interface IntakeOptions {
  readonly buffer: MemoryLimits;
  /** Of the events that are held, over all topics: the others have room all the same. Default: 5,000 events, 16 MiB. */
  readonly held?: MemoryLimits | undefined;
  readonly deliveryTimeoutMs: number;
  readonly breaker: Breaker;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The event that tested the cluster has its end, and the cluster is away still. */
  readonly onProbeFailed: () => void;
  /** There are events to be sent, and were none before. */
  readonly onFirst: () => void;
}

/** Who may come in: the room in memory, and what the breaker says. */
export interface Intake {
  /** Without those that are held. */
  readonly memory: Pick<Memory, 'events' | 'bytes' | 'overflows'>;
  /** Takes the event, or says why not. `isHeld`: the breaker is asked when it may be sent. */
  admit(event: SerializedEvent, topic: string, isHeld: boolean): QueuedEvent | SendFailure;
  /** An event that was held may be sent. */
  free(queued: QueuedEvent): void;
  /** Takes one in again for which there was no room in the backup, as held. False: nor is there here. */
  takeBack(queued: QueuedEvent): boolean;
  /** Called once for each event that was taken, when it has its end. */
  release(queued: QueuedEvent): void;
}

const never = Number.POSITIVE_INFINITY;
const usualHeld: MemoryLimits = { maxEvents: 5_000, maxBytes: 16 * 1024 * 1024 };

export function createIntake(options: IntakeOptions): Intake {
  const { deliveryTimeoutMs, breaker, clock, logger, onProbeFailed, onFirst } = options;
  const memory = createMemory(options.buffer);
  const held = createMemory(options.held ?? usualHeld);
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
    admit(event, topic, isHeld) {
      const bytes = bytesOf(event);
      const atMs = clock.monotonic();
      if (isHeld && !held.take(bytes)) return behindBackup;
      if (isHeld)
        return new QueuedEvent(event, topic, bytes, { atMs, deliveryTimeoutMs: never, isProbe: false });
      // Room first: a probe that finds none would leave the breaker waiting.
      if (!memory.take(bytes)) return bufferFull();
      const admission = breaker.admit();
      if (admission === 'refused' && !isBehindProbe(event, topic)) {
        memory.give(bytes);
        return breakerOpen;
      }
      const isProbe = admission === 'probe';
      const queued = new QueuedEvent(event, topic, bytes, { atMs, deliveryTimeoutMs, isProbe });
      if (isProbe) probe = queued;
      if (memory.events === 1) onFirst();
      return queued;
    },
    free(queued) {
      held.give(queued.bytes);
      memory.takeAnyway(queued.bytes);
      queued.free(clock.monotonic(), deliveryTimeoutMs);
      if (memory.events === 1) onFirst();
    },
    takeBack(queued) {
      const hasRoom = held.take(queued.bytes);
      if (hasRoom) queued.comeBack();
      return hasRoom;
    },
    release(queued) {
      (queued.isHeld ? held : memory).give(queued.bytes);
      if (queued.isProbe) breaker.probeGone();
      // When its whole batch is settled, those of its key that wait behind it.
      if (queued === probe) void Promise.resolve().then(afterProbe);
    },
  };
}
