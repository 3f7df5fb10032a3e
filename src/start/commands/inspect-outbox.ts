import type { Config } from '../../config/config.ts';
import { SvcError } from '../../ground/errors.ts';
import { consoleLogger } from '../../observe/logger.ts';
import { type Dialect, dialectOf } from '../../transaction/dialect.ts';
import { refusalOf, remarkOf } from '../outbox/senders.ts';
import { useOutbox } from '../outbox/use-outbox.ts';

/** What a relay finds in the database of the outbox. */
export interface TablesReport {
  readonly dialect: Dialect | null;
  readonly table: string;
  readonly pending?: number;
  /** A statement that keeps rows out which no relay finds, where it is missing. */
  readonly guard?: string | undefined;
  readonly warning?: string;
  /** Why a relay could not send from it. */
  readonly code?: string;
  readonly problem?: string;
}

/**
 * Whether the tables are there, fit the settings, and the user of the configuration may do what a relay does. Rejects with
 * what is no `SvcError` alone.
 */
export async function inspectOutbox(config: Config): Promise<TablesReport> {
  const { table, datasource } = config.outbox;
  const scene = { dialect: dialectOf(datasource.url ?? '') ?? null, table };
  const settings = { ...config.outbox, dialect: scene.dialect ?? 'postgres' };
  try {
    return await useOutbox(config, consoleLogger('warn'), async (store) => {
      await store.prepare();
      await store.checkRows();
      const senders = await store.senders();
      const refusal = refusalOf(settings, senders);
      if (refusal !== undefined) throw refusal;
      const pending = await store.countPending();
      const guard = await store.missingGuard();
      const warning = remarkOf(settings, senders, false);
      return { ...scene, pending, guard, ...(warning !== undefined && { warning }) };
    });
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    const { code, message } = error;
    return { ...scene, code, problem: message };
  }
}
