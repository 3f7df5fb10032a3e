import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { SvcError } from '../../src/ground/errors.ts';
import type { EnvelopeKeyProvider } from '../../src/protect/keys/key-provider.ts';

export interface FakeKeyService extends EnvelopeKeyProvider {
  /** Key ids of the calls so far. */
  readonly generated: string[];
  readonly decrypted: string[];
  /** How many calls were under way at the same time, at most. */
  maxAtOnce: number;
  /** What the next calls throw; `undefined`: nothing. */
  failure: unknown;
  /** Each call waits for it. */
  delay: Promise<void> | undefined;
  readonly handedOut: Uint8Array[];
}

/** A key service in memory that really encrypts its data keys. */
export function fakeKeyService(master: Buffer = randomBytes(32)): FakeKeyService {
  let inFlight = 0;
  async function call<T>(answer: () => T): Promise<T> {
    service.maxAtOnce = Math.max(service.maxAtOnce, ++inFlight);
    try {
      await service.delay;
      if (service.failure !== undefined) throw service.failure;
      return answer();
    } finally {
      inFlight--;
    }
  }
  const service: FakeKeyService = {
    name: 'fake',
    supportsEnvelopeEncryption: true,
    generated: [],
    decrypted: [],
    maxAtOnce: 0,
    failure: undefined,
    delay: undefined,
    handedOut: [],

    generateDataKey(keyId) {
      service.generated.push(keyId);
      return call(() => {
        const plaintext = randomBytes(32);
        const iv = randomBytes(12);
        const cipher = createCipheriv('aes-256-gcm', master, iv, { authTagLength: 16 });
        cipher.setAAD(Buffer.from(keyId));
        const encryptedKey = Buffer.concat([
          iv,
          cipher.update(plaintext),
          cipher.final(),
          cipher.getAuthTag(),
        ]);
        service.handedOut.push(plaintext);
        return { plaintext, encryptedKey };
      });
    },

    decryptDataKey(keyId, encryptedKey) {
      service.decrypted.push(keyId);
      return call(() => {
        try {
          const decipher = createDecipheriv('aes-256-gcm', master, encryptedKey.subarray(0, 12), {
            authTagLength: 16,
          });
          decipher.setAAD(Buffer.from(keyId));
          decipher.setAuthTag(encryptedKey.subarray(-16));
          const key = Buffer.concat([decipher.update(encryptedKey.subarray(12, -16)), decipher.final()]);
          service.handedOut.push(key);
          return key;
        } catch {
          throw new SvcError('SVC_PROTECT_DECRYPT_FAILED', 'fake: damaged data key', {
            name: 'KeyProviderException',
          });
        }
      });
    },
  };
  return service;
}

export function refused(): SvcError {
  return new SvcError('SVC_PROTECT_KEY_REFUSED', 'fake: disabled', { name: 'KeyProviderException' });
}

export function unavailable(): SvcError {
  return new SvcError('SVC_PROTECT_KEY_UNAVAILABLE', 'fake: cannot be reached', {
    name: 'KeyProviderException',
  });
}
