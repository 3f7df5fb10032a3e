import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import kafkajs from 'kafkajs';
import type {
  KafkaSaslOptions,
  KafkaTokenOptions,
} from '../../../../src/adapters/kafka/kafka-client-options.ts';
import type { Broker, SendFailure, SendResult } from '../../../../src/publish/broker.ts';
import { assertOneLine, failureOf } from '../../../contract/broker.ts';
import { temporaryFolder } from '../../../support/folders.ts';
import { type SecureKafka, startSecureKafka } from '../../../support/kafka.ts';
import { requiring } from '../../../support/requires.ts';
import { type KafkaClient, kafkaClients } from '../kafka-clients.ts';
import { kafkaOptions, textRecord } from '../kafka-options.ts';
import { startTokenEndpoint, type TokenEndpoint, unsignedToken } from '../token-endpoint.ts';

/** What came of sends over the lives of several tokens. */
interface Outlived {
  readonly results: readonly SendResult[];
  /** Asked for at the endpoint. */
  readonly tokens: number;
}

const tokensOf = ({ url }: TokenEndpoint): KafkaTokenOptions => ({
  ...{ mechanism: 'oauthbearer', tokenEndpointUrl: url },
  ...{ clientId: 'app', clientSecret: 'right-secret' },
});

requiring('secure-kafka', 'tokens and permissions', function () {
  this.timeout(60_000);
  let kafka: SecureKafka;
  let endpoint: TokenEndpoint;
  let tokens: KafkaTokenOptions;
  let folder: string;
  const opened: Broker[] = [];
  const outliving = new Map<string, Promise<Outlived>>();

  before(async () => {
    folder = temporaryFolder('token');
    kafka = await startSecureKafka();
    endpoint = await startTokenEndpoint();
    await kafka.createTopic('open');
    await kafka.createTopic('closed');
    await allowOnly('closed', 'somebody');
    for (const client of kafkaClients) {
      const goOn = await beginToOutlive(client);
      const outlived = goOn();
      outlived.catch(() => {}); // It shows in its own test.
      outliving.set(client.name, outlived);
    }
  });
  after(async () => {
    await endpoint?.close();
    await kafka?.stop();
  });
  beforeEach(() => {
    endpoint.requests.length = 0;
    endpoint.answer = undefined;
    endpoint.lifetimeS = 3600;
    tokens = tokensOf(endpoint);
  });
  afterEach(() => Promise.all(opened.splice(0).map((broker) => broker.close(1000))));

  /** From then on everybody else is refused there. */
  async function allowOnly(topic: string, user: string): Promise<void> {
    const admin = new kafkajs.Kafka({ brokers: kafka.brokers, logLevel: kafkajs.logLevel.NOTHING }).admin();
    await admin.connect();
    await admin.createAcls({
      acl: [
        {
          resourceType: kafkajs.AclResourceTypes.TOPIC,
          resourceName: topic,
          resourcePatternType: kafkajs.ResourcePatternTypes.LITERAL,
          principal: `User:${user}`,
          host: '*',
          operation: kafkajs.AclOperationTypes.ALL,
          permissionType: kafkajs.AclPermissionTypes.ALLOW,
        },
      ],
    });
    await admin.disconnect();
  }

  /** Sends for longer than the first token lives. With an endpoint and a topic of its own: others work meanwhile. */
  async function beginToOutlive({ name, create }: KafkaClient): Promise<() => Promise<Outlived>> {
    const own = await startTokenEndpoint();
    own.lifetimeS = 6;
    const topic = `expiring-${name}`;
    await kafka.createTopic(topic);
    const options = { tls: { caFile: kafka.caFile }, sasl: tokensOf(own), connectionTimeoutMs: 5_000 };
    // Other suites keep the machine busy: a slow answer says nothing about tokens.
    const broker = create(kafkaOptions(kafka.secureBrokers, { ...options, requestTimeoutMs: 15_000 }));
    const results = [await broker.send(topic, 0, [textRecord('x')])];
    return async () => {
      for (const end = performance.now() + 8_000; performance.now() < end; await sleep(200))
        results.push(await broker.send(topic, 0, [textRecord('x')]));
      await broker.close(1000);
      await own.close();
      return { results, tokens: own.requests.length };
    };
  }

  for (const { name, create } of kafkaClients) {
    describe(name, () => {
      const open = (sasl: KafkaSaslOptions): Broker => {
        const broker = create(kafkaOptions(kafka.secureBrokers, { tls: { caFile: kafka.caFile }, sasl }));
        opened.push(broker);
        return broker;
      };
      const refused = async (sasl: KafkaSaslOptions): Promise<SendFailure> => {
        const broker = open(sasl);
        const failure = failureOf(await broker.connect());
        assert.deepEqual(failureOf(await broker.send('open', 0, [textRecord('sesame')])), failure);
        await assert.rejects(broker.describe(), { message: failure.message });
        assertOneLine(failure);
        assert.doesNotMatch(JSON.stringify(failure), /(right|wrong)-secret|eyJ/);
        return failure;
      };

      it('sends with a token of the endpoint, asked for once', async () => {
        const broker = open({ ...tokens, scope: 'kafka', extensions: { traceId: 'x1' } });
        const before = await kafka.count('open');
        assert.deepEqual(await broker.connect(), { ok: true });
        assert.deepEqual(await broker.send('open', 0, [textRecord('x')]), { ok: true });
        assert.equal((await broker.describe()).nodeCount, 1);
        assert.equal(await kafka.count('open'), before + 1);
        assert.equal(endpoint.requests.length, 1);
        const { grant_type, scope } = Object.fromEntries(endpoint.requests[0]?.body ?? []);
        assert.deepEqual([grant_type, scope], ['client_credentials', 'kafka']);
      });

      it('sends with a token out of a file, and with one that stands in the configuration', async () => {
        const tokenFile = join(folder, 'token');
        writeFileSync(tokenFile, `${unsignedToken('filed', 600)}\n`);
        for (const source of [{ tokenFile }, { token: unsignedToken('given', 600) }]) {
          const broker = open({ mechanism: 'oauthbearer', ...source });
          assert.deepEqual(await broker.send('open', 0, [textRecord('x')]), { ok: true });
        }
      });

      it('says that Kafka refused the token', async () => {
        const failure = await refused({ mechanism: 'oauthbearer', token: unsignedToken('late', 60, -3600) });
        assert.equal(failure.kind, 'fatal');
        assert.match(failure.message, /^Kafka refused the token \(OAUTHBEARER\): check its issuer/);
      });

      it('says that the endpoint refused the client', async () => {
        const failure = await refused({ ...tokens, clientSecret: 'wrong-secret' });
        assert.deepEqual([failure.kind, failure.cause], ['fatal', 'SVC_ADAPTERS_TOKEN']);
        assert.match(
          failure.message,
          /^the token endpoint http\S+\/token refused the client "app" \(401 invalid_client\): check svc\.broker\.sasl\.oauthbearer\.client-id and client-secret$/,
        );
      });

      it('says that the endpoint is away, and that it may come back', async () => {
        const failure = await refused({
          ...tokens,
          tokenEndpointUrl: 'http://user:sesame@127.0.0.1:1/token',
        });
        assert.equal(failure.kind, 'retriable');
        assert.match(failure.message, /^cannot reach the token endpoint http:\/\/127\.0\.0\.1:1\/token \(/);
        endpoint.answer = { status: 503, body: '<html>' };
        const busy = await refused(tokens);
        assert.equal(busy.kind, 'retriable');
        assert.match(busy.message, /cannot answer now \(503\)/);
      });

      it('names a token file that is not there', async () => {
        const failure = await refused({ mechanism: 'oauthbearer', tokenFile: '/nowhere/token' });
        assert.equal(failure.kind, 'fatal');
        assert.match(
          failure.message,
          /cannot read the token file \(ENOENT\): check svc\.broker\.sasl\.oauthbearer\.token-file/,
        );
      });

      it('goes on when its token has expired, with a new one', async () => {
        const { results, tokens } = (await outliving.get(name)) as Outlived;
        assert.ok(results.length > 10, `${results.length} sends`);
        for (const result of results) assert.deepEqual(result, { ok: true });
        assert.ok(tokens >= 2, `${tokens} tokens`);
      });

      it('says who may not write to a topic, and goes on with others', async () => {
        const password = {
          mechanism: 'scram-sha-512',
          username: kafka.user,
          password: kafka.password,
        } as const;
        for (const [sasl, who] of [
          [password, 'the user "svc"'],
          [tokens, 'the OAuth client "app"'],
        ] as const) {
          const broker = open(sasl);
          const failure = failureOf(await broker.send('closed', 0, [textRecord('sesame')]));
          assert.deepEqual([failure.kind, failure.cause], ['fatal', 'TOPIC_AUTHORIZATION_FAILED']);
          assert.equal(
            failure.message,
            `${who} may not write to topic "closed": grant it Write and Describe`,
          );
          assert.deepEqual(await broker.send('open', 0, [textRecord('x')]), { ok: true });
        }
        assert.equal(await kafka.count('closed'), 0);
      });
    });
  }
});
