import { randomBytes } from 'node:crypto';
import { createStaticKeyProvider } from '../../src/protect/keys/key-ring.ts';
import { fakeKeyService, refused, unavailable } from '../protect/fake-key-service.ts';
import { testKeyProvider } from './key-provider.ts';

describe('key provider contract: static', () => {
  const keys = ['customer', 'orders_2-b'].map((id) => ({ id, key: randomBytes(32).toString('base64') }));
  testKeyProvider('at-hand', () => ({
    open: () => createStaticKeyProvider(keys),
    keyIds: ['customer', 'orders_2-b'],
    unknownKeyId: 'unknown',
    secrets: keys.map(({ key }) => key),
  }));
});

// What the tests of caches and sealers stand on.
describe('key provider contract: the fake of the tests', () => {
  const master = randomBytes(32);
  const open = (failure?: Error) => {
    const service = fakeKeyService(master);
    service.failure = failure;
    const ifKnown = <T>(keyId: string, answer: () => Promise<T>): Promise<T> =>
      keyId === 'unknown' ? Promise.reject(refused()) : answer();
    return {
      ...service,
      generateDataKey: (keyId: string) => ifKnown(keyId, () => service.generateDataKey(keyId)),
      decryptDataKey: (keyId: string, key: Uint8Array) =>
        ifKnown(keyId, () => service.decryptDataKey(keyId, key)),
    };
  };
  testKeyProvider('envelope', () => ({
    open: () => open(),
    openUnreachable: () => open(unavailable()),
    keyIds: ['customer', 'orders'],
    unknownKeyId: 'unknown',
    secrets: [master.toString('base64'), master.toString('hex')],
  }));
});
