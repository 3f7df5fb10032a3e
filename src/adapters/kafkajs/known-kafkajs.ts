/** The version whose inner workings the patches know. The last one there is, of 2023. */
export const knownVersion = '2.2.4';

/** Version of the kafkajs that is installed; `undefined` where it does not say. */
export async function versionOfKafkajs(): Promise<string | undefined> {
  try {
    return (await import('kafkajs/package.json', { with: { type: 'json' } })).default.version;
  } catch {
    return undefined;
  }
}
