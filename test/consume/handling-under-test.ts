import {
  type ConsumedEvent,
  type ConsumedRecord,
  createHandling,
  type EventHandler,
} from '../../src/consume/handle-event.ts';
import type { InboxOnce } from '../../src/consume/inbox.ts';
import type { Logger } from '../../src/observe/logger.ts';
import { consumedBy } from '../../src/observe/outcomes.ts';
import { envelope, newName, record } from './on-kafka.ts';

type HandlingOptions = Parameters<typeof createHandling>[0];
type DeathCause = Parameters<NonNullable<HandlingOptions['sendDeadLetter']>>[1];

/** Handles records with an inbox that knows nothing, and tells what became of them. */
export function handling({
  retentionDays,
  ...options
}: Partial<HandlingOptions> & { readonly retentionDays?: number }) {
  const its = {
    buried: [] as DeathCause[],
    errors: [] as unknown[],
    warnings: [] as string[],
    inboxIds: [] as string[],
  };
  const logger: Logger = { debug() {}, info() {}, error() {}, warn: (line) => void its.warnings.push(line) };
  const once: InboxOnce['once'] = async ({ eventId }, work) => {
    its.inboxIds.push(eventId);
    return { handled: true, result: await work(undefined) };
  };
  const counts = consumedBy(newName('handling'));
  const handle = createHandling({
    inbox: { once, ...(retentionDays !== undefined && { retentionDays }) },
    ...{ consumer: 'c', handlers: new Map(), otherTypes: 'dead-letter', counts, logger },
    ...{ maxAttempts: 1, firstDelayMs: 1, longestDelayMs: 1, handlerTimeoutMs: 60_000, upcasts: undefined },
    sendDeadLetter: async (_, cause) => {
      its.buried.push(cause);
      return 'all';
    },
    onError: (error) => void its.errors.push(error),
    enter: async () => () => {},
    ...options,
  });
  const take = async (given: object, at: Partial<ConsumedRecord> = {}): Promise<void> => {
    const { key, value, headers } = record({ ...envelope('1'), ...given });
    const whole = { topic: 'orders', partition: 0, offset: 0n, key, headers, timestamp: Date.now() };
    await handle(
      { ...whole, value: Buffer.from(value), ...at },
      { signal: new AbortController().signal, waits() {} },
    );
  };
  return { its, take };
}

/** The event of a record as its handler gets it. Rejects with the reason if it is refused. */
export async function eventOf(
  {
    value,
    headers,
    timestamp = Number.NaN,
  }: Pick<ConsumedRecord, 'headers' | 'value'> & { readonly timestamp?: number },
  reading: Pick<HandlingOptions, 'avro' | 'keys' | 'decrypt'> = {},
): Promise<ConsumedEvent> {
  const seen: ConsumedEvent[] = [];
  const handlers = new Map<string, EventHandler>([['*', (event) => void seen.push(event)]]);
  const { its, take } = handling({ handlers, ...reading });
  await take({}, { value, headers, timestamp });
  const [event] = seen;
  if (event === undefined) throw its.errors[0];
  return event;
}
