import assert from 'node:assert/strict';
import {
  AuthenticationError,
  NetworkError,
  ProtocolError,
  ResponseError,
  TimeoutError,
  UserError,
} from '@platformatic/kafka';
import { BrokerError, toSendFailure } from '../../../src/adapters/kafka/send-failure.ts';
import { TokenError } from '../../../src/adapters/kafka/token.ts';
import type { SendFailureKind } from '../../../src/publish/broker.ts';
import { assertOneLine } from '../../contract/broker.ts';
import { kafkaOptions } from '../kafka/kafka-options.ts';

const sasl = { mechanism: 'plain', username: 'me', password: 'sesame' } as const;
const options = kafkaOptions(['one:9092', 'two:9092'], { sasl });
const unwritten = { options, topic: 'orders', written: false };
const written = { options, topic: 'orders', written: true };

const at = (cause: Error, broker = 'one:9092'): BrokerError => new BrokerError(broker, cause);
const refused = (type: string): Error =>
  Object.assign(new ResponseError(0, 11, {}, {}), { errors: [new ProtocolError(type)] });
const socket = (code: string): Error =>
  new NetworkError('Connection to one:9092 failed.', { cause: Object.assign(new Error('socket'), { code }) });

describe('platformatic failures', () => {
  const table: [
    error: Error,
    before: SendFailureKind,
    after: SendFailureKind,
    cause: string,
    text: RegExp,
  ][] = [
    [
      refused('TOPIC_AUTHORIZATION_FAILED'),
      'fatal',
      'fatal',
      'TOPIC_AUTHORIZATION_FAILED',
      /the user "me" may not write/,
    ],
    [
      refused('UNKNOWN_TOPIC_OR_PARTITION'),
      'retriable',
      'retriable',
      'UNKNOWN_TOPIC_OR_PARTITION',
      /does not exist/,
    ],
    [
      refused('NOT_LEADER_OR_FOLLOWER'),
      'retriable',
      'retriable',
      'NOT_LEADER_OR_FOLLOWER',
      /moved to another broker/,
    ],
    [refused('MESSAGE_TOO_LARGE'), 'too_large', 'too_large', 'MESSAGE_TOO_LARGE', /max\.message\.bytes/],
    [
      refused('NOT_ENOUGH_REPLICAS'),
      'retriable',
      'retriable',
      'NOT_ENOUGH_REPLICAS',
      /min\.insync\.replicas/,
    ],
    [
      refused('REQUEST_TIMED_OUT'),
      'retriable',
      'unknown_outcome',
      'TimeoutException',
      /no answer from Kafka/,
    ],
    [refused('POLICY_VIOLATION'), 'fatal', 'fatal', 'POLICY_VIOLATION', /refused the record/],
    [
      refused('KAFKA_STORAGE_ERROR'),
      'retriable',
      'unknown_outcome',
      'KAFKA_STORAGE_ERROR',
      /KAFKA_STORAGE_ERROR/,
    ],
    [
      new TimeoutError('Request timed out'),
      'retriable',
      'unknown_outcome',
      'TimeoutException',
      /no answer from Kafka \(one:9092\) within 2000 ms/,
    ],
    [
      new TimeoutError('Connection to one:9092 timed out.'),
      'retriable',
      'unknown_outcome',
      'TimeoutException',
      /did not accept a connection within 1000 ms/,
    ],
    [
      new NetworkError('Connection closed'),
      'retriable',
      'unknown_outcome',
      'ConnectionError',
      /closed the connection/,
    ],
    [
      new UserError('Broker requires TLS.'),
      'retriable',
      'unknown_outcome',
      'ConnectionError',
      /closed the connection/,
    ],
    [
      socket('ECONNREFUSED'),
      'retriable',
      'unknown_outcome',
      'ECONNREFUSED',
      /cannot reach Kafka at one:9092, two:9092/,
    ],
    [
      socket('ECONNRESET'),
      'retriable',
      'unknown_outcome',
      'ECONNRESET',
      /closed the connection before|Kafka failed at .*ECONNRESET/,
    ],
    [
      socket('SELF_SIGNED_CERT_IN_CHAIN'),
      'fatal',
      'fatal',
      'SELF_SIGNED_CERT_IN_CHAIN',
      /is not trusted .*ca-file/,
    ],
    [
      new AuthenticationError('Invalid server signature.'),
      'fatal',
      'fatal',
      'ConnectionError',
      /refused the user "me" \(PLAIN\)/,
    ],
    [
      new TokenError('the endpoint is away', true),
      'retriable',
      'retriable',
      'SVC_ADAPTERS_TOKEN',
      /^the endpoint is away$/,
    ],
    [new TokenError('no such client', false), 'fatal', 'fatal', 'SVC_ADAPTERS_TOKEN', /^no such client$/],
    [
      new TypeError('of ours'),
      'retriable',
      'unknown_outcome',
      'ConnectionError',
      /Kafka failed at .*of ours/,
    ],
  ];
  for (const [error, before, after, cause, text] of table) {
    it(`${cause}: ${before} before the record was written, ${after} afterwards (${text.source})`, () => {
      for (const [scene, kind] of [
        [unwritten, before],
        [written, after],
      ] as const) {
        const failure = toSendFailure(at(error), scene);
        assert.deepEqual([failure.kind, failure.cause], [kind, cause]);
        assert.match(failure.message, text);
        assertOneLine(failure);
      }
    });
  }

  it('points to advertised.listeners when it is another address that cannot be reached', () => {
    const { message } = toSendFailure(at(socket('ECONNREFUSED'), 'inner:9092'), unwritten);
    assert.match(message, /^cannot reach inner:9092 .*advertised\.listeners/);
  });

  it('has a line for what is no error at all', () => {
    for (const thrown of [undefined, null, 'text', 7]) assertOneLine(toSendFailure(thrown, unwritten));
  });
});
