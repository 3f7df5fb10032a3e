import type { Logger } from '../../observe/logger.ts';

/** The version whose inner workings the patch knows. The last one there is, of 2023. */
export const knownVersion = '2.2.4';

/** Version of the kafkajs that is installed; `undefined` where it does not say. */
export async function versionOfKafkajs(): Promise<string | undefined> {
  try {
    return (await import('kafkajs/package.json', { with: { type: 'json' } })).default.version;
  } catch {
    return undefined;
  }
}

const said = new Set<string>();

/** Once per process: whatever opens a client finds the same kafkajs. `effect`: what svc goes on without. */
export function sayUnknown(logger: Logger | undefined, version: string | undefined, effect: string): void {
  if (said.has(effect)) return;
  said.add(effect);
  const found = version === knownVersion ? 'that is installed' : (version ?? 'of an unknown version');
  logger?.warn(`kafkajs ${found} is not the one that svc knows (${knownVersion}): ${effect}`);
}
