import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { OutboxRow } from '../../src/outbox/outbox-row.ts';
import type { OutboxStore, RowStatus } from '../../src/outbox/outbox-store.ts';
import { openOutboxStore } from '../../src/start/adapters.ts';
import { temporaryFolder } from '../support/folders.ts';

/** A folder with a configuration, whose outbox is a file of SQLite and whose topics are files. */
export interface OutboxFolder {
  readonly path: string;
  readonly store: OutboxStore;
  /** Stores rows and brings them to their status. */
  put(status: RowStatus, ...rows: readonly Partial<OutboxRow>[]): Promise<void>;
  statuses(): Promise<Record<string, RowStatus>>;
  /** Records of a topic. */
  topic(
    name: string,
  ): { readonly key: string; readonly headers: Record<string, string>; readonly value: unknown }[];
  remove(): Promise<void>;
}

export function outboxRow(rest: Partial<OutboxRow> = {}): OutboxRow {
  const eventId = rest.eventId ?? '1';
  return {
    ...{ eventId, eventType: 'ORDERED', aggregateType: 'Order', aggregateId: 'a', topic: 'events', key: 'a' },
    ...{ headers: { 'content-type': 'application/json', eventId }, occurredAt: 1_772_618_400_000 },
    payload: Buffer.from(JSON.stringify({ eventId, payload: { card: '4111' } })),
    ...rest,
  };
}

export async function outboxFolder(svc: Record<string, object> = {}): Promise<OutboxFolder> {
  const path = temporaryFolder('outbox');
  const outbox = { enabled: true, datasource: { url: 'sqlite:./outbox.db' }, ...svc.outbox };
  const broker = { topic: 'events', client: 'file', ...svc.broker };
  const config = { svc: { ...svc, broker, outbox }, management: { server: { port: 0 } } };
  writeFileSync(join(path, 'svc.config.json'), JSON.stringify(config));
  const store = openOutboxStore({
    url: `sqlite:${join(path, 'outbox.db')}`,
    table: 'svc_outbox_events',
    initializeSchema: 'embedded',
  });
  await store.prepare();
  return {
    path,
    store,
    async put(status, ...rows) {
      const before = (await store.read({}, 0, 10_000)).at(-1)?.id ?? 0;
      await store.insert(rows.map(outboxRow));
      if (status === 'PENDING') return;
      const ids = (await store.read({}, before, 10_000)).map(({ id }) => id);
      await store.claim('test', 10_000);
      if (status === 'PUBLISHED') await store.ack('test', ids, true);
      else
        await store.fail(
          'test',
          ids.map((id) => ({ id, retryCount: 4, lastError: 'MESSAGE_TOO_LARGE', retryInMs: null })),
        );
      await store.release('test');
    },
    async statuses() {
      const rows = await store.read({}, 0, 10_000);
      return Object.fromEntries(rows.map(({ eventId, status }) => [eventId, status]));
    },
    topic(name) {
      try {
        const text = readFileSync(join(path, 'svc-topics', `${name}.ndjson`), 'utf8');
        return text
          .trim()
          .split('\n')
          .map((line) => JSON.parse(line));
      } catch {
        return [];
      }
    },
    async remove() {
      await store.close(1_000);
    },
  };
}
