import type { SvcError } from '../../ground/errors.ts';
import { isolate } from '../../observe/isolate.ts';
import type { Logger } from '../../observe/logger.ts';
import type { OutboxStore } from '../../outbox/outbox-store.ts';
import { reasonOf } from '../../outbox/relay/signal.ts';
import { tellWritingViews } from '../../transaction/writing-views.ts';
import { refusalOf, remarkOf, type SenderSettings } from './senders.ts';

/** Somebody else may change the table, or begin or stop to send, at any time; while calls fail for it, each look may end that. */
export const lookMs = 60_000;
export const refusedLookMs = 5_000;

export interface SenderWatchOptions {
  readonly store: Pick<OutboxStore, 'senders' | 'traits'>;
  readonly settings: SenderSettings;
  /** This process has a relay. */
  readonly isRelay: boolean;
  readonly logger: Logger;
}

/**
 * Whether the settings of this process fit its table, and whether anybody sends the rows; and what of the database the statements of
 * the application hang on.
 */
export interface SenderWatch {
  /** The first time, and then by itself from time to time. Never rejects: what cannot be asked is as it was. */
  look(): Promise<void>;
  /** Events would be lost. */
  refusal(): SvcError | undefined;
  /** The largest packet that the database takes, as far as there is a limit and it is known. */
  maxPacketBytes(): number | undefined;
  /** One line: nothing is lost, and somebody has to look at it. */
  remark(): string | undefined;
  stop(): void;
}

export function watchSenders({ store, settings, isRelay, logger }: SenderWatchOptions): SenderWatch {
  let refusal: SvcError | undefined;
  let remark: string | undefined;
  let maxPacketBytes: number | undefined;
  let timer: NodeJS.Timeout | undefined;
  let isStopped = false;

  async function ask(): Promise<void> {
    const senders = await store.senders();
    const [wasRefused, last] = [refusal, remark];
    refusal = refusalOf(settings, senders);
    remark = refusal === undefined ? remarkOf(settings, senders, isRelay) : undefined;
    if (isStopped) return;
    if (refusal !== undefined && refusal.message !== wasRefused?.message)
      logger.error(`outbox: ${refusal.message}`, { code: refusal.code });
    if (refusal === undefined && wasRefused !== undefined)
      logger.info(`outbox: the table ${settings.table} fits the settings now: events are stored again`);
    // How long rows wait is said once.
    if (remark !== undefined && last === undefined) logger.warn(`outbox: ${remark}`);
  }

  async function learn(): Promise<void> {
    const traits = await store.traits();
    maxPacketBytes = traits.maxPacketBytes;
    tellWritingViews(settings.dialect, traits.writingViews);
  }

  async function look(): Promise<void> {
    await isolate(learn).catch((error: unknown) =>
      logger.debug(`outbox: which views of the database write is not known: ${reasonOf(error)}`),
    );
    await isolate(ask).catch((error: unknown) =>
      logger.debug(`outbox: who sends the rows is not known: ${reasonOf(error)}`),
    );
    if (isStopped) return;
    timer = setTimeout(look, refusal === undefined ? lookMs : refusedLookMs).unref();
  }

  return {
    look,
    refusal: () => refusal,
    maxPacketBytes: () => maxPacketBytes,
    remark: () => remark,
    stop() {
      isStopped = true;
      clearTimeout(timer);
    },
  };
}
