import { createAwsKmsKeyProvider } from '../../src/adapters/aws-kms/aws-kms-key-provider.ts';
import { startKms, type TestKms } from '../support/kms.ts';
import { requiring } from '../support/requires.ts';
import { type KeyProviderUnderTest, testKeyProvider } from './key-provider.ts';

requiring('kms', 'key provider contract: aws-kms', function () {
  this.timeout(30_000);
  let kms: TestKms;
  let keys: Record<string, string>;
  before(async () => {
    kms = await startKms();
    keys = {
      customer: await kms.createKey(),
      orders: await kms.createKey(),
      gone: `arn:aws:kms:${kms.region}:123456789012:key/00000000-0000-0000-0000-000000000000`,
    };
  });

  testKeyProvider('envelope', (): KeyProviderUnderTest => {
    const { endpoint, region } = kms;
    return {
      open: () => createAwsKmsKeyProvider({ endpoint, region, keys }),
      openUnreachable: () => createAwsKmsKeyProvider({ endpoint: 'http://127.0.0.1:1', region, keys }),
      keyIds: ['customer', 'orders'],
      unknownKeyId: 'gone',
      secrets: [process.env.AWS_SECRET_ACCESS_KEY as string],
    };
  });
});
