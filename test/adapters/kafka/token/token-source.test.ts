import assert from 'node:assert/strict';
import type { KafkaTokenOptions } from '../../../../src/adapters/kafka/kafka-client-options.ts';
import { createTokenSource } from '../../../../src/adapters/kafka/token.ts';
import { useClock } from '../../../support/fake-time.ts';
import { startTokenEndpoint, type TokenEndpoint } from '../token-endpoint.ts';

describe('tokens to sign in to Kafka with', () => {
  let endpoint: TokenEndpoint;
  let options: KafkaTokenOptions;
  let nowMs: number;
  const create = (rest: Partial<KafkaTokenOptions> = {}) =>
    createTokenSource({ ...options, ...rest } as KafkaTokenOptions, 1_000);

  before(async () => {
    endpoint = await startTokenEndpoint();
  });
  after(() => endpoint.close());
  beforeEach(() => {
    nowMs = 1_000;
    useClock({ monotonic: () => nowMs });
    endpoint.requests.length = 0;
    endpoint.answer = undefined;
    endpoint.lifetimeS = 100;
    options = {
      mechanism: 'oauthbearer',
      tokenEndpointUrl: endpoint.url,
      clientId: 'app',
      clientSecret: 'right-secret',
    };
  });

  it('are renewed after 80 % of their life, and shared until then', async () => {
    const token = create();
    await Promise.all([token(), token(), token()]);
    nowMs += 79_999;
    await token();
    assert.equal(endpoint.requests.length, 1);
    nowMs += 1;
    await token();
    assert.equal(endpoint.requests.length, 2);
  });

  it('serve to their end while the endpoint is away, and not longer', async () => {
    const token = create();
    const first = await token();
    endpoint.answer = { status: 503, body: '' };
    nowMs += 99_999;
    assert.equal(await token(), first);
    nowMs += 1;
    await assert.rejects(token(), { code: 'SVC_ADAPTERS_TOKEN', message: /cannot answer now \(503\)/ });
    endpoint.answer = undefined;
    await token();
  });

  it('are got anew when Kafka refused one, unless it was new', async () => {
    const token = create();
    const first = await token();
    nowMs += 9_999;
    token.refused(first);
    await token();
    assert.equal(endpoint.requests.length, 1);
    nowMs += 1;
    token.refused('another one');
    await token();
    assert.equal(endpoint.requests.length, 1);
    token.refused(first);
    await token();
    assert.equal(endpoint.requests.length, 2);
  });

  it('live five minutes where the endpoint does not say', async () => {
    endpoint.answer = { status: 200, body: '{"access_token":"t"}' };
    const token = create();
    assert.equal(await token(), 't');
    nowMs += 239_999;
    await token();
    assert.equal(endpoint.requests.length, 1);
    nowMs += 1;
    await token();
    assert.equal(endpoint.requests.length, 2);
  });

  it('must be tokens: nothing else is sent to Kafka', async () => {
    for (const body of [
      '',
      '<html>',
      'null',
      '{}',
      '{"access_token":""}',
      '{"access_token":"a\\u0001b"}',
      '{"access_token":7}',
    ]) {
      endpoint.answer = { status: 200, body };
      await assert.rejects(
        create()(),
        { message: /answered without a token: check svc\.broker\.sasl/ },
        body,
      );
    }
  });

  it('say what to check when they are refused, and show no secret', async () => {
    const refusals: [status: number, body: string, text: RegExp][] = [
      [
        400,
        '{"error":"invalid_scope"}',
        /\(400 invalid_scope\): check svc\.broker\.sasl\.oauthbearer\.scope$/,
      ],
      [401, 'wrong-secret', /\(401\): check svc\.broker\.sasl\.oauthbearer\.client-id and client-secret$/],
      [302, '', /\(302\): check svc\.broker\.sasl\.oauthbearer\.token-endpoint-url$/],
      [404, '', /\(404\): check svc\.broker\.sasl\.oauthbearer\.token-endpoint-url$/],
      [429, '', /cannot answer now \(429\)$/],
      [400, `{"error":"${'x'.repeat(100)}\\n"}`, /\(400\): check/],
    ];
    for (const [status, body, message] of refusals) {
      endpoint.answer = { status, body };
      await assert.rejects(create({ clientSecret: 'wrong-secret' })(), (error: Error) => {
        assert.match(error.message, message);
        assert.doesNotMatch(JSON.stringify({ ...error, message: error.message }), /wrong-secret/);
        return true;
      });
    }
  });

  it('send a secret of any characters as it is', async () => {
    await assert.rejects(create({ clientId: 'a:b c', clientSecret: 'ü:%&+' })());
    assert.deepEqual([endpoint.requests[0]?.client, endpoint.requests[0]?.secret], ['a:b c', 'ü:%&+']);
  });

  for (const [spare, isTaken] of [
    [0, true],
    [1, false],
  ] as const)
    it(`an answer of ${262_144 + spare} bytes is ${isTaken ? 'read' : 'cut off'}, and nothing of it said`, async () => {
      const body = JSON.stringify({ access_token: 'hunter2', expires_in: 100, more: '' });
      const padded = body.replace('""', `"${'x'.repeat(262_144 + spare - body.length)}"`);
      endpoint.answer = { status: 200, body: padded };
      if (isTaken) assert.equal(await create()(), 'hunter2');
      else
        await assert.rejects(create()(), (error: Error & { isRetriable?: boolean }) => {
          assert.match(
            error.message,
            /answers with more than 262144 bytes: check svc\.broker\.sasl\.oauthbearer\.token-endpoint-url$/,
          );
          assert.doesNotMatch(error.message, /hunter2|xxx/);
          return error.isRetriable === false;
        });
    });
});
