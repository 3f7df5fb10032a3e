import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { createServer, type Server, type TLSSocket } from 'node:tls';
import type { KafkaTlsOptions } from '../../../src/adapters/kafka/kafka-client-options.ts';
import type { SendFailure } from '../../../src/publish/broker.ts';
import { assertOneLine, failureOf } from '../../contract/broker.ts';
import { kafkaClients } from './kafka-clients.ts';
import { kafkaOptions } from './kafka-options.ts';

const file = (name: string): string => join(import.meta.dirname, 'fixtures', 'certificates', name);

/** A port that wants a client certificate, as a broker with `ssl.client.auth=required`; it then hangs up. */
describe('a port that wants a client certificate', () => {
  let server: Server;
  let brokers: string[];
  let seen: string[];

  before(async () => {
    const [key, cert, ca] = ['server.key', 'server.pem', 'client.pem'].map((name) =>
      readFileSync(file(name)),
    );
    server = createServer({ key, cert, ca: ca as Buffer, requestCert: true, rejectUnauthorized: true });
    server.on('secureConnection', (socket: TLSSocket) => {
      seen.push(String(socket.getPeerCertificate().subject.CN));
      socket.on('error', () => {}).destroy();
    });
    server.on('tlsClientError', () => {});
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    brokers = [`127.0.0.1:${(server.address() as AddressInfo).port}`];
  });
  after(() => new Promise((resolve) => server.close(resolve)));
  beforeEach(() => {
    seen = [];
  });

  for (const { name, create } of kafkaClients) {
    const failureWith = async (tls: KafkaTlsOptions): Promise<SendFailure> => {
      const broker = create(kafkaOptions(brokers, { tls: { caFile: file('server.pem'), ...tls } }));
      const failure = failureOf(await broker.connect());
      await broker.close(1000);
      assertOneLine(failure);
      return failure;
    };

    it(`${name} shows the one of the configuration`, async () => {
      await failureWith({ certFile: file('client.pem'), keyFile: file('client.key') });
      assert.ok(seen.length > 0);
      assert.deepEqual([...new Set(seen)], ['svc test client']);
    });

    for (const [what, tls] of [
      ['without one', {}],
      ['with one that is not trusted', { certFile: file('stranger.pem'), keyFile: file('stranger.key') }],
    ] as const) {
      it(`${name} says that it is refused ${what}`, async () => {
        const { message } = await failureWith(tls);
        assert.match(
          message,
          /refused the TLS connection .*cert-file and key-file|may need another client certificate/,
        );
        assert.deepEqual(seen, []);
      });
    }

    it(`${name} says that certificate and key cannot be used`, async () => {
      const { kind, message } = await failureWith({
        certFile: file('client.pem'),
        keyFile: file('stranger.key'),
      });
      assert.equal(kind, 'fatal');
      assert.match(message, /the files in svc\.broker\.tls cannot be used \(ERR_/);
    });
  }
});
