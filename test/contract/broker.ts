import { brokerContract } from '../../src/testing/broker-contract.ts';
import type { BrokerUnderTest } from '../../src/testing/broker-under-test.ts';

export {
  assertOneLine,
  type ContractRecord as StoredRecord,
  failureOf,
  newTopic,
  recordOf,
} from '../../src/testing/broker-under-test.ts';

/** Call it inside a `describe`. */
export function testBroker(get: () => BrokerUnderTest): void {
  for (const { title, run } of brokerContract(get)) it(title, run);
}
