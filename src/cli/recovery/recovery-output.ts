import { printable } from '../../observe/printable.ts';
import type { RecoveryResult, StoredEvent } from '../../start/commands/recovery.ts';

/** An event in a list: where it lies and what it is, never what is in it. In the order of the columns. */
export function listed({ place, eventId, eventType, topic, storedAt, reason }: StoredEvent): object {
  const time = storedAt === 0 ? null : new Date(storedAt).toISOString();
  return { storedAt: time, eventId, eventType, topic: topic ?? null, reason: reason ?? null, place };
}

export function listColumns({
  place,
  eventId,
  eventType,
  topic,
  storedAt,
  reason,
}: StoredEvent): readonly string[] {
  const time = storedAt === 0 ? '-' : new Date(storedAt).toISOString();
  return [time, eventId, eventType || '-', topic ?? '-', reason ?? '-', place];
}

export const listHead = ['STORED', 'EVENT', 'TYPE', 'TOPIC', 'REASON', 'PLACE'];

export const onRequest = 'stopped on request';

export function summaryOf(result: RecoveryResult): object {
  const { source, matched, skipped, sent, failed, unreadable, problems, stoppedBy, isInterrupted } = result;
  return {
    source,
    matched,
    skipped,
    sent,
    failed,
    unreadable,
    problems: [...problems].map(([reason, events]) => ({ reason, events })),
    stopped: stoppedBy?.message ?? (isInterrupted ? onRequest : null),
  };
}

export function summaryLines(result: RecoveryResult, isSending: boolean): string {
  const { source, matched, skipped, sent, failed, unreadable, problems, stoppedBy, isInterrupted } = result;
  const filtered = skipped > 0 ? `, ${skipped} left out by the filters` : '';
  const lines = [
    isSending
      ? `${source}: ${sent} of ${matched} events sent to their topics${filtered}`
      : `${source}: ${eventsOf(matched)}${filtered}`,
  ];
  for (const [reason, events] of problems) lines.push(`not sent: ${eventsOf(events)}: ${reason}`);
  for (const { place, reason } of unreadable) lines.push(`not readable: ${place}: ${reason}`);
  if (stoppedBy !== undefined)
    lines.push('stopped: the broker is away. Run the command again to go on from here');
  else if (isInterrupted)
    lines.push(
      isSending
        ? `${onRequest}. Run the command again to go on from here`
        : `${onRequest}: there may be more`,
    );
  else if (failed > 0) lines.push('what was not sent is still there');
  return `${lines.map(printable).join('\n')}\n`;
}

export function eventsOf(count: number): string {
  return count === 1 ? '1 event' : `${count} events`;
}
