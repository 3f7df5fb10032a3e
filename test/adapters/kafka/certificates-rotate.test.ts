import assert from 'node:assert/strict';
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { createServer, type TLSSocket } from 'node:tls';
import { temporaryFolder } from '../../support/folders.ts';
import { type SecureKafka, startSecureKafka } from '../../support/kafka.ts';
import { useLogger } from '../../support/log.ts';
import { requiring } from '../../support/requires.ts';
import { kafkaClients } from './kafka-clients.ts';
import { kafkaOptions, textRecord } from './kafka-options.ts';

const fixture = (name: string): string => join(import.meta.dirname, 'fixtures', 'certificates', name);

describe('certificates that are replaced while svc runs', () => {
  let folder: string;
  const file = (name: string): string => join(folder, name);
  const replace = (pairs: Readonly<Record<string, string>>): void => {
    for (const [from, to] of Object.entries(pairs)) cpSync(from, file(to));
  };

  beforeEach(() => {
    folder = temporaryFolder('certificates');
  });

  for (const { name, create } of kafkaClients) {
    it(`${name} shows the client certificate that is there when it connects`, async () => {
      const seen: string[] = [];
      const [key, cert] = [readFileSync(fixture('server.key')), readFileSync(fixture('server.pem'))];
      const ca = [readFileSync(fixture('client.pem')), readFileSync(fixture('stranger.pem'))];
      const server = createServer({ key, cert, ca, requestCert: true, rejectUnauthorized: true });
      server.on('secureConnection', (socket: TLSSocket) => {
        seen.push(String(socket.getPeerCertificate().subject.CN));
        socket.on('error', () => {}).destroy();
      });
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      const warnings: string[] = [];
      const logger = { debug() {}, info() {}, error() {}, warn: (line: string) => void warnings.push(line) };
      replace({ [fixture('stranger.pem')]: 'tls.crt', [fixture('stranger.key')]: 'tls.key' });
      const tls = { caFile: fixture('server.pem'), certFile: file('tls.crt'), keyFile: file('tls.key') };
      const brokers = [`127.0.0.1:${(server.address() as AddressInfo).port}`];
      useLogger(logger);
      const broker = create(kafkaOptions(brokers, { tls }));
      const names = async (): Promise<string[]> => {
        seen.length = 0;
        await broker.connect();
        return [...new Set(seen)];
      };
      const [stranger = ''] = await names();
      assert.notEqual(stranger, 'svc test client');

      // Half replaced: the pair before it stays in use, and one line says so.
      replace({ [fixture('client.pem')]: 'tls.crt' });
      assert.deepEqual(await names(), [stranger]);
      assert.deepEqual(await names(), [stranger]);
      assert.equal(warnings.length, 1);
      assert.match(
        warnings[0] ?? '',
        /^the files in svc\.broker\.tls cannot be used .*; the previous certificates stay in use$/,
      );

      replace({ [fixture('client.key')]: 'tls.key' });
      assert.deepEqual(await names(), ['svc test client']);
      rmSync(file('tls.key'));
      assert.deepEqual(await names(), ['svc test client']);
      assert.equal(warnings.length, 2);
      assert.match(
        warnings[1] ?? '',
        /^cannot read ".*tls\.key" \(ENOENT\): check svc\.broker\.tls\.key-file; /,
      );
      await broker.close(1_000);
      await new Promise((resolve) => server.close(resolve));
    });
  }

  requiring('secure-kafka', 'of a real Kafka', function () {
    this.timeout(120_000);
    let kafka: SecureKafka;
    before(async () => {
      kafka = await startSecureKafka();
    });
    after(() => kafka.stop());

    for (const { name, create } of kafkaClients) {
      it(`${name} trusts the authority that is there when it connects`, async () => {
        const topic = `rotated-${name}`;
        await kafka.createTopic(topic);
        replace({ [fixture('stranger.pem')]: 'ca.crt' });
        const sasl = { mechanism: 'plain', username: kafka.user, password: kafka.password } as const;
        const options = { tls: { caFile: file('ca.crt') }, sasl, requestTimeoutMs: 10_000 };
        const broker = create(kafkaOptions(kafka.secureBrokers, options));
        assert.equal((await broker.connect()).ok, false);
        replace({ [kafka.caFile]: 'ca.crt' });
        assert.deepEqual(await broker.send(topic, 0, [textRecord('1')]), { ok: true });
        writeFileSync(file('ca.crt'), 'no certificate');
        await kafka.restart();
        let result = await broker.send(topic, 0, [textRecord('2')]);
        for (const end = Date.now() + 20_000; !result.ok && Date.now() < end; )
          result = await broker.send(topic, 0, [textRecord('2')]);
        assert.deepEqual(result, { ok: true });
        await broker.close(1_000);
      });
    }
  });
});
