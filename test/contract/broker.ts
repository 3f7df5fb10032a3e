import { type BrokerUnderTest, brokerContract } from '../../src/testing/broker-contract.ts';

export {
  assertOneLine,
  type ContractRecord as StoredRecord,
  failureOf,
  newTopic,
  recordOf,
} from '../../src/testing/broker-contract.ts';

/** Call it inside a `describe`. */
export function testBroker(get: () => BrokerUnderTest): void {
  for (const { title, run } of brokerContract(get)) it(title, run);
}
