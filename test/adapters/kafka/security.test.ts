import assert from 'node:assert/strict';
import type {
  KafkaClientOptions,
  KafkaPasswordOptions,
} from '../../../src/adapters/kafka/kafka-client-options.ts';
import type { SendFailure } from '../../../src/publish/broker.ts';
import { assertOneLine, failureOf } from '../../contract/broker.ts';
import { type SecureKafka, startSecureKafka } from '../../support/kafka.ts';
import { requiring } from '../../support/requires.ts';
import { kafkaClients } from './kafka-clients.ts';
import { kafkaOptions, textRecord } from './kafka-options.ts';

for (const { name, create, refusedUserCause } of kafkaClients) {
  requiring('secure-kafka', `${name} with TLS and SASL`, function () {
    this.timeout(60_000);
    let kafka: SecureKafka;
    let user: KafkaPasswordOptions;

    before(async () => {
      kafka = await startSecureKafka();
      await kafka.createTopic('secure');
      user = { mechanism: 'scram-sha-512', username: kafka.user, password: kafka.password };
    });
    after(() => kafka?.stop());

    /** Both ways in must say the same. */
    async function failureWith(
      rest: Partial<KafkaClientOptions>,
      brokers = kafka.secureBrokers,
    ): Promise<SendFailure> {
      const broker = create(kafkaOptions(brokers, rest));
      const failure = failureOf(await broker.connect());
      assert.deepEqual(failureOf(await broker.send('secure', 0, [textRecord('sesame')])), failure);
      await assert.rejects(broker.describe(), { message: failure.message });
      await broker.close(1000);
      assertOneLine(failure);
      return failure;
    }

    for (const mechanism of ['scram-sha-512', 'plain'] as const) {
      it(`sends with ${mechanism} over TLS`, async () => {
        const options = { tls: { caFile: kafka.caFile }, sasl: { ...user, mechanism } };
        const broker = create(kafkaOptions(kafka.secureBrokers, options));
        const before = await kafka.count('secure');
        assert.deepEqual(await broker.connect(), { ok: true });
        assert.deepEqual(await broker.send('secure', 0, [textRecord('x')]), { ok: true });
        assert.equal((await broker.describe()).nodeCount, 1);
        await broker.close(1000);
        assert.equal(await kafka.count('secure'), before + 1);
      });
    }

    it('says that the password is wrong, and does not show it', async () => {
      const failure = await failureWith({
        tls: { caFile: kafka.caFile },
        sasl: { ...user, password: 'wrong-password' },
      });
      assert.deepEqual([failure.kind, failure.cause], ['fatal', refusedUserCause]);
      assert.match(
        failure.message,
        /^Kafka refused the user "svc" \(SCRAM-SHA-512\): check svc\.broker\.sasl\.username/,
      );
      assert.doesNotMatch(JSON.stringify(failure), /wrong-password/);
    });

    it('says that the certificate is not trusted', async () => {
      const failure = await failureWith({ tls: {}, sasl: user });
      assert.equal(failure.kind, 'fatal');
      assert.match(failure.cause, /SELF_SIGNED_CERT|UNABLE_TO_/);
      assert.match(failure.message, /is not trusted .*svc\.broker\.tls\.ca-file/);
    });

    it('says that the certificate is for another name', async () => {
      const failure = await failureWith({
        tls: { caFile: kafka.caFile, serverName: 'elsewhere.example' },
        sasl: user,
      });
      assert.deepEqual([failure.kind, failure.cause], ['fatal', 'ERR_TLS_CERT_ALTNAME_INVALID']);
      assert.match(failure.message, /svc\.broker\.tls\.server-name/);
    });

    it('says that the port may need TLS', async () => {
      const failure = await failureWith({});
      assert.equal(failure.kind, 'retriable');
      assert.match(
        failure.message,
        /closed the connection before it was usable: the port may need TLS \(svc\.broker\.tls\)/,
      );
    });

    it('says that the port does not speak TLS', async () => {
      const failure = await failureWith({ tls: { caFile: kafka.caFile } }, kafka.brokers);
      assert.match(failure.message, /the port may not use TLS|does not use TLS/);
    });

    it('says that the port takes no user and password', async () => {
      const failure = await failureWith({ sasl: user }, kafka.brokers);
      assert.deepEqual([failure.kind, failure.cause], ['fatal', 'ILLEGAL_SASL_STATE']);
      assert.match(failure.message, /does not accept username and password/);
    });

    it('says that the mechanism is not offered', async () => {
      const failure = await failureWith({
        tls: { caFile: kafka.caFile },
        sasl: { ...user, mechanism: 'scram-sha-256' },
      });
      assert.equal(failure.kind, 'fatal');
      assert.match(
        failure.message,
        /does not offer SCRAM-SHA-256 on this port: check svc\.broker\.sasl\.mechanism/,
      );
    });
  });
}
