import assert from 'node:assert/strict';
import kafkajs from 'kafkajs';
import { toSendFailure } from '../../../src/adapters/kafka/send-failure.ts';
import type { SendFailureKind } from '../../../src/publish/broker.ts';
import { kafkaOptions } from '../kafka/kafka-options.ts';

const options = kafkaOptions(['one:9092', 'two:9092']);
const unwritten = { options, topic: 'orders', written: false };
const written = { options, topic: 'orders', written: true };

/** As the retrier of kafkajs hands out an error. */
const wrapped = (cause: object): Error =>
  new kafkajs.KafkaJSNumberOfRetriesExceeded(cause as Error, { retryCount: 0, retryTime: 300 });
const connection = (message: string, code?: string, broker = 'one:9092'): Error =>
  new kafkajs.KafkaJSConnectionError(message, { broker, ...(code !== undefined && { code }) });
/** Of a class that its types do not name. */
const named = (name: string, message: string): Error => Object.assign(new Error(message), { name });
const protocol = (type: string): Error =>
  new kafkajs.KafkaJSProtocolError(
    Object.assign(new Error('from the table of kafkajs'), { type, code: 0, retriable: true }) as never,
  );

describe('kafkajs failures', () => {
  const table: [type: string, before: SendFailureKind, after: SendFailureKind, text: RegExp][] = [
    ['INVALID_TOPIC_EXCEPTION', 'fatal', 'fatal', /is internal to Kafka/],
    [
      'UNKNOWN_TOPIC_OR_PARTITION',
      'retriable',
      'retriable',
      /"orders" does not exist: create it, or set auto\.create/,
    ],
    ['LEADER_NOT_AVAILABLE', 'retriable', 'retriable', /no leader/],
    ['NOT_LEADER_FOR_PARTITION', 'retriable', 'retriable', /moved/],
    [
      'TOPIC_AUTHORIZATION_FAILED',
      'fatal',
      'fatal',
      /the client "svc-tests" may not write to topic "orders"/,
    ],
    ['CLUSTER_AUTHORIZATION_FAILED', 'fatal', 'fatal', /permissions/],
    ['ILLEGAL_SASL_STATE', 'fatal', 'fatal', /svc\.broker\.sasl/],
    ['MESSAGE_TOO_LARGE', 'too_large', 'too_large', /max\.message\.bytes/],
    ['RECORD_LIST_TOO_LARGE', 'too_large', 'too_large', /max\.message\.bytes/],
    ['NOT_ENOUGH_REPLICAS', 'retriable', 'retriable', /min\.insync\.replicas/],
    ['NOT_ENOUGH_REPLICAS_AFTER_APPEND', 'unknown_outcome', 'unknown_outcome', /min\.insync\.replicas/],
    ['REQUEST_TIMED_OUT', 'retriable', 'unknown_outcome', /no answer/],
    ['POLICY_VIOLATION', 'fatal', 'fatal', /POLICY_VIOLATION/],
    ['KAFKA_STORAGE_ERROR', 'retriable', 'unknown_outcome', /KAFKA_STORAGE_ERROR/],
    ['KAFKAJS_UNKNOWN_ERROR_CODE', 'retriable', 'unknown_outcome', /KAFKAJS_UNKNOWN_ERROR_CODE/],
  ];
  for (const [type, before, after, text] of table) {
    it(`${type}: ${before} before the record was written, ${after} afterwards`, () => {
      for (const [scene, kind] of [
        [unwritten, before],
        [written, after],
      ] as const) {
        const failure = toSendFailure(wrapped(protocol(type)), scene);
        assert.equal(failure.kind, kind);
        assert.match(failure.message, text);
        assert.equal(failure.cause, type === 'REQUEST_TIMED_OUT' ? 'TimeoutException' : type);
      }
    });
  }

  it('never says that nothing was stored when the connection broke after the write', () => {
    const broken = [
      connection('Connection error: read ECONNRESET', 'ECONNRESET'),
      // Its own reconnection fails, and kafkajs throws that instead of the first error.
      connection('Connection error: connect ECONNREFUSED', 'ECONNREFUSED'),
      named('KafkaJSConnectionClosedError', 'Closed connection'),
      new kafkajs.KafkaJSRequestTimeoutError('Request Produce timed out', {} as never),
      new TypeError('a bug'),
      'not even an error',
      undefined,
    ];
    for (const error of broken) {
      assert.equal(toSendFailure(error, written).kind, 'unknown_outcome', String(error));
      assert.equal(toSendFailure(error, unwritten).kind, 'retriable', String(error));
    }
  });

  it('names all brokers when the first ones cannot be reached', () => {
    const { message, cause } = toSendFailure(
      wrapped(connection('Connection error', 'ECONNREFUSED')),
      unwritten,
    );
    assert.match(
      message,
      /^cannot reach Kafka at one:9092, two:9092 \(ECONNREFUSED\): .*svc\.broker\.bootstrap-servers/,
    );
    assert.equal(cause, 'ECONNREFUSED');
  });

  it('points to advertised.listeners when it is another address that cannot be reached', () => {
    const { message } = toSendFailure(connection('Connection error', 'ENOTFOUND', 'kafka:29092'), unwritten);
    assert.match(message, /kafka:29092 \(ENOTFOUND\).*advertised\.listeners/);
  });

  it('calls time-outs TimeoutException and names the setting', () => {
    const timeout = toSendFailure(
      new kafkajs.KafkaJSRequestTimeoutError('x', { broker: 'one:9092' } as never),
      written,
    );
    assert.equal(timeout.cause, 'TimeoutException');
    assert.match(timeout.message, /one:9092.*within 2000 ms.*svc\.broker\.request-timeout-ms/);
    const connect = toSendFailure(wrapped(connection('Connection timeout')), unwritten);
    assert.deepEqual([connect.cause, connect.kind], ['TimeoutException', 'retriable']);
    assert.match(connect.message, /within 1000 ms/);
  });

  it('takes a certificate that cannot be verified as fatal, and says which setting helps', () => {
    const messages = {
      SELF_SIGNED_CERT_IN_CHAIN: /not trusted \(SELF_SIGNED_CERT_IN_CHAIN\).*svc\.broker\.tls\.ca-file/,
      DEPTH_ZERO_SELF_SIGNED_CERT: /ca-file/,
      UNABLE_TO_VERIFY_LEAF_SIGNATURE: /ca-file/,
      UNABLE_TO_GET_ISSUER_CERT_LOCALLY: /ca-file/,
      ERR_TLS_CERT_ALTNAME_INVALID: /another name.*svc\.broker\.tls\.server-name/,
      CERT_HAS_EXPIRED: /not valid at this time/,
      EPROTO: /does not use TLS/,
      ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED: /cert-file/,
    };
    for (const [code, text] of Object.entries(messages)) {
      const failure = toSendFailure(wrapped(connection(`Connection error: ${code}`, code)), unwritten);
      assert.equal(failure.kind, 'fatal', code);
      assert.match(failure.message, text);
    }
  });

  it('says that the user was refused, without the password', () => {
    const scene = {
      ...unwritten,
      options: kafkaOptions([], {
        sasl: { mechanism: 'scram-sha-512', username: 'ann', password: 'sesame' },
      }),
    };
    const refused = toSendFailure(
      named('KafkaJSSASLAuthenticationError', 'SASL SCRAM SHA512 authentication failed'),
      scene,
    );
    assert.equal(refused.kind, 'fatal');
    assert.match(
      refused.message,
      /refused the user "ann" \(SCRAM-SHA-512\): check svc\.broker\.sasl\.username/,
    );
    assert.doesNotMatch(JSON.stringify(refused), /sesame/);
  });
});
