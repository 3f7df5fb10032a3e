import { runningService } from './running-service.ts';

/**
 * Forgets the keys of a key service at once, in this thread, and fetches them anew: for a key that must not be used any more.
 * Ordinary rotation needs nothing, as each key is replaced when its time is over.
 *
 * Resolves when the keys are there again, or could not be fetched: it never rejects, health and the log say what failed, and
 * svc goes on asking. Until then events with encrypted fields are refused (`SVC_PROTECT_KEY_UNAVAILABLE`). Keys of the
 * configuration are not touched.
 */
export async function invalidateEncryptionKeys(): Promise<void> {
  await runningService.current?.invalidateEncryptionKeys();
}
