import assert from 'node:assert/strict';
import { lines, loadCode, removeFolders } from '../config-folder.ts';

const problemsOf = (broker: object): string[] => {
  const loaded = loadCode({ broker: { 'bootstrap-servers': ['a:1'], ...broker } });
  return lines([...loaded.problems, ...loaded.warnings]).map((line) =>
    line.replace(/(, got a string)? \(code\)/, ''),
  );
};
const tls = { enabled: true };
const endpoint = { 'token-endpoint-url': 'https://login/token', 'client-id': 'me', 'client-secret': 's' };

describe('options of the client for Kafka', () => {
  afterEach(removeFolders);

  it('compression: what each client can do', () => {
    for (const compression of ['none', 'gzip', 'zstd']) assert.deepEqual(problemsOf({ compression }), []);
    for (const compression of ['none', 'gzip', 'snappy', 'lz4', 'zstd'])
      assert.deepEqual(problemsOf({ compression, client: 'platformatic' }), []);
    for (const codec of ['snappy', 'lz4'])
      assert.deepEqual(problemsOf({ compression: codec }), [
        `svc.broker.compression: kafkajs cannot compress with ${codec}. Use gzip or zstd, or svc.broker.client: platformatic.`,
      ]);
    assert.match(
      problemsOf({ compression: 'brotli' })[0] ?? '',
      /must be one of none, gzip, snappy, lz4, zstd/,
    );
  });

  it('acks: as a word or as the number that YAML makes of it; 0 gets a warning', () => {
    for (const acks of ['all', 'ALL', '1', 1]) assert.deepEqual(problemsOf({ acks }), []);
    for (const acks of ['0', 0])
      assert.match(
        problemsOf({ acks })[0] ?? '',
        /svc\.broker\.acks: counts an event as published once it is sent/,
      );
    for (const acks of [2, -1, 'some', true])
      assert.match(problemsOf({ acks })[0] ?? '', /must be one of all, 1, 0/);
  });

  it('worker ids: leased in Kafka where events go there', () => {
    const leaseIn = (lease: string, broker: object): string[] => {
      const loaded = loadCode({ broker, 'id-generator': { lease } });
      return lines(loaded.problems);
    };
    const kafka = { 'bootstrap-servers': ['a:1'] };
    for (const lease of ['auto', 'host', 'kafka']) assert.deepEqual(leaseIn(lease, kafka), []);
    for (const lease of ['auto', 'host']) assert.deepEqual(leaseIn(lease, { client: 'file' }), []);
    assert.deepEqual(leaseIn('kafka', { client: 'file' }), [
      'svc.id-generator.lease: worker ids can be leased in Kafka only if events go to Kafka, but client is file (code). Use auto or host.',
    ]);
    assert.deepEqual(leaseIn('database', kafka), [
      'svc.id-generator.lease: leases worker ids in the database of the outbox, which this version does not support yet, got a string (code). Use one of auto, host, kafka.',
    ]);
  });

  it('oauthbearer: one source of tokens', () => {
    const withTokens = (oauthbearer: object, rest: object = {}) =>
      problemsOf({ tls, sasl: { mechanism: 'oauthbearer', oauthbearer, ...rest } });
    for (const good of [
      endpoint,
      { token: 't' },
      { 'token-file': 'token' },
      { ...endpoint, scope: 'a', extensions: ['a=b'] },
    ])
      assert.deepEqual(withTokens(good), []);
    assert.match(
      withTokens({})[0] ?? '',
      /^svc\.broker\.sasl\.mechanism: oauthbearer needs a token\. Set one of svc\.broker\.sasl\.oauthbearer\.token-endpoint-url/,
    );
    assert.match(
      withTokens({ 'token-endpoint-url': 'https://login/token' }).join('\n'),
      /client-id: is required by the token endpoint.*\n.*client-secret: is required/,
    );
    assert.match(
      withTokens({ ...endpoint, token: 't' })[0] ?? '',
      /oauthbearer\.token: cannot be combined with svc\.broker\.sasl\.oauthbearer\.token-endpoint-url/,
    );
    assert.match(
      withTokens({ ...endpoint, 'token-endpoint-url': 'http://login/token' })[0] ?? '',
      /sends the client secret unencrypted/,
    );
    assert.match(withTokens({ ...endpoint, extensions: ['a'] })[0] ?? '', /must be name=value/);
    assert.match(
      withTokens(endpoint, { username: 'me' })[0] ?? '',
      /username: has no effect with mechanism oauthbearer/,
    );
    const open = problemsOf({ sasl: { mechanism: 'oauthbearer', oauthbearer: { token: 'sesame' } } });
    assert.match(open[0] ?? '', /sends the token unencrypted/);
    assert.doesNotMatch(JSON.stringify(open), /sesame/);
  });

  it('passwords: nothing of tokens', () => {
    const sasl = { mechanism: 'plain', username: 'me', password: 'p' };
    assert.deepEqual(problemsOf({ tls, sasl }), []);
    assert.match(
      problemsOf({ tls, sasl: { ...sasl, oauthbearer: { token: 't' } } })[0] ?? '',
      /oauthbearer\.token: has no effect with mechanism plain/,
    );
    assert.match(
      problemsOf({ tls, sasl: { oauthbearer: { token: 't' } } })[0] ?? '',
      /mechanism: is required to sign in/,
    );
  });
});
