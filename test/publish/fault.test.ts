import assert from 'node:assert/strict';
import {
  type Fault,
  faultOf,
  notMadeFailure,
  passingOf,
  type SendFailure,
} from '../../src/publish/broker.ts';
import { createClusterState } from '../../src/publish/main/cluster-state.ts';

const failure = (cause: string, kind: SendFailure['kind'] = 'fatal'): SendFailure => ({
  ...{ kind, cause, message: 'no' },
});

/** An answer of the cluster to the probe closes the circuit. */
function isAnswer(given: SendFailure): boolean {
  const settings = { threshold: 5, probeIntervalMs: 0 };
  const circuit = createClusterState({ ...settings, ask: async () => {} });
  circuit.silent('it does not answer', 0);
  assert.equal(circuit.admit(), 'probe');
  circuit.failed(given, true);
  return circuit.state === 'CLOSED';
}

describe('whose fault a failed send is', () => {
  const rows: readonly (readonly [SendFailure, Fault, isByCluster: boolean])[] = [
    [failure('MESSAGE_TOO_LARGE', 'too_large'), 'record', true],
    [failure('INVALID_RECORD'), 'record', true],
    [failure('CORRUPT_MESSAGE', 'retriable'), 'record', true],
    [notMadeFailure('no text'), 'record', false],
    [failure('SVC_SERIALIZE_SCHEMA_MISFIT'), 'record', false],
    [failure('UNKNOWN_TOPIC_OR_PARTITION', 'retriable'), 'topic', true],
    [failure('TOPIC_AUTHORIZATION_FAILED'), 'topic', true],
    [failure('INVALID_TOPIC_EXCEPTION'), 'topic', false],
    [failure('UNKNOWN_PARTITION', 'retriable'), 'partition', false],
    [failure('INVALID_TIMESTAMP'), 'clock', true],
    [failure('SVC_SERIALIZE_REGISTRY_AWAY', 'retriable'), 'registry', false],
    [failure('ECONNREFUSED', 'retriable'), 'cluster', false],
    // Names that every object has.
    [failure('constructor', 'retriable'), 'cluster', false],
  ];
  for (const [given, fault, answer] of rows)
    it(`${given.kind} ${given.cause}: ${fault}${answer ? ', by the cluster' : ''}`, () => {
      assert.equal(faultOf(given), fault);
      assert.equal(isAnswer(given), answer);
    });

  it('says of a topic whether it may be there in a moment', () => {
    const rows = [
      ['UNKNOWN_TOPIC_OR_PARTITION', 'unknown'],
      ['INVALID_TOPIC_EXCEPTION', undefined],
      ['TOPIC_AUTHORIZATION_FAILED', undefined],
      ['LEADER_NOT_AVAILABLE', 'without leader'],
      ['NOT_LEADER_FOR_PARTITION', 'moved'],
      ['NOT_ENOUGH_REPLICAS', 'without replicas'],
      ['ECONNREFUSED', undefined],
      ['constructor', undefined],
      [undefined, undefined],
    ] as const;
    for (const [cause, passing] of rows) assert.equal(passingOf(cause), passing, cause);
  });
});
