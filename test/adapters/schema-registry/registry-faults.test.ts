import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { createAvroReader } from '../../../src/adapters/schema-registry/avro-reader.ts';
import { createSchemaRegistry } from '../../../src/adapters/schema-registry/schema-registry.ts';

// What a real registry does not answer on demand.
const subject = { subject: 'orders-value', schema: '{"type":"string","doc":"hunter2"}' };
const json = (status: number, body: unknown) => (response: ServerResponse) =>
  void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));

describe('faults of a schema registry', () => {
  let answer: (response: ServerResponse) => void = () => {};
  let authorization: string | undefined;
  let address = '';
  const server = createServer((request, response) => {
    authorization = request.headers.authorization;
    request.resume();
    answer(response);
  });

  before(async () => {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  after(() => {
    server.closeAllConnections();
    server.close();
  });

  const registry = (options = {}) => createSchemaRegistry({ url: `${address}/`, timeoutMs: 300, ...options });
  const says = (code: string, message: RegExp) => (error: Error & { code: string }) => {
    assert.equal(error.code, code);
    assert.match(error.message, message);
    assert.ok(error.message.startsWith(`schema registry at ${address}: `), error.message);
    assert.doesNotMatch(error.message, /hunter2|secret/);
    return true;
  };
  const away = 'SVC_SERIALIZE_REGISTRY_AWAY';
  const refused = 'SVC_SERIALIZE_SCHEMA_REFUSED';
  const quoted = { error_code: 1, message: 'hunter2' };

  for (const [name, given, code, message] of [
    ['401', json(401, quoted), away, /other credentials \(401\)/],
    ['403', json(403, quoted), away, /no permission on orders-value \(403\)/],
    ['404', json(404, quoted), refused, /orders-value does not have this schema: register it/],
    ['409', json(409, quoted), refused, /not compatible with subject orders-value \(409\)/],
    ['422', json(422, quoted), refused, /does not accept the schema of subject orders-value/],
    ['500', json(500, quoted), away, /answers with status 500/],
    [
      'a redirect',
      (response: ServerResponse) => void response.writeHead(302).end(),
      away,
      /redirect \(302\)/,
    ],
    ['no JSON', (response: ServerResponse) => void response.end('<html>hunter2'), away, /is not JSON/],
    ['no id', json(200, { id: 'hunter2' }), away, /returns no schema id/],
    ['an id of five bytes', json(200, { id: 2 ** 32 }), away, /returns no schema id/],
    ['an id below 0', json(200, { id: -1 }), away, /returns no schema id/],
    ['too much', json(200, { id: 1, schema: 'x'.repeat(4_194_304) }), away, /too large/],
    [
      'a cut line',
      (response: ServerResponse) => void response.destroy(),
      away,
      /cannot be reached \(ECONNRESET\)/,
    ],
    ['nothing', () => {}, away, /did not answer in time/],
  ] as const)
    it(`${name}: a clear error without what the registry quotes`, async () => {
      answer = given;
      await assert.rejects(registry().register(subject), says(code, message));
    });

  it('takes the largest id there can be', async () => {
    answer = json(200, { id: 2 ** 32 - 1 });
    assert.equal(await registry().register(subject), 2 ** 32 - 1);
  });

  it('nobody there, and a file that cannot be read', async () => {
    const nobody = createSchemaRegistry({ url: 'http://127.0.0.1:1' });
    await assert.rejects(nobody.register(subject), { code: away, message: /ECONNREFUSED/ });
    await assert.rejects(
      registry({ tokenFile: '/no/such/token' }).register(subject),
      says(away, /the file with its token cannot be read \(ENOENT\)/),
    );
  });

  it('signs in as it is told to', async () => {
    answer = json(200, { id: 7 });
    await registry({ username: 'user', password: 'secret' }).register(subject);
    assert.equal(authorization, `Basic ${Buffer.from('user:secret').toString('base64')}`);
    await registry({ token: 'secret' }).register(subject);
    assert.equal(authorization, 'Bearer secret');
    await registry().register(subject);
    assert.equal(authorization, undefined);
    await assert.rejects(
      registry({ token: 'secret\n' }).register(subject),
      says(away, /HTTP headers do not allow/),
    );
  });

  it('over TLS, an authority of its own is trusted where it is named', async () => {
    const certificates = join(import.meta.dirname, '../kafka/fixtures/certificates');
    const [key, cert] = ['server.key', 'server.pem'].map((file) => readFileSync(join(certificates, file)));
    const secure = createSecureServer({ key, cert }, (request, response) => {
      request.resume();
      json(200, { id: 8 })(response);
    });
    await new Promise<void>((resolve) => secure.listen(0, '127.0.0.1', resolve));
    try {
      const url = `https://127.0.0.1:${(secure.address() as AddressInfo).port}`;
      const caFile = join(certificates, 'server.pem');
      assert.equal(await registry({ url, caFile }).register(subject), 8);
      for (const wrong of [{}, { caFile: join(certificates, 'stranger.pem') }])
        await assert.rejects(registry({ url, ...wrong }).register(subject), {
          code: away,
          message:
            /its certificate is not trusted \(\w+\): add its authority to svc\.serde\.schema-registry-ca-file/,
        });
    } finally {
      secure.closeAllConnections();
      secure.close();
    }
  });

  it('a reader: bytes that are no record of Avro, an id that is not known, a schema that is none', async () => {
    const reader = createAvroReader({ url: address, timeoutMs: 300 });
    const notAvro = { code: 'SVC_SERIALIZE_NOT_AVRO' };
    await assert.rejects(reader.read(Buffer.from('{"eventId":"1"}')), notAvro);
    await assert.rejects(reader.read(Buffer.from([0, 0, 0, 0])), notAvro);
    answer = json(404, quoted);
    await assert.rejects(reader.read(Buffer.from([0, 0, 0, 0, 9, 1])), says(refused, /there is no schema 9/));
    answer = json(200, { schema: '{"type":"record","name":"A","fields":[{"name":"a","type":"string"}]}' });
    await assert.rejects(reader.read(Buffer.from([0, 0, 0, 0, 9, 40, 1])), notAvro);
    await assert.rejects(reader.read(Buffer.from([0, 0, 0, 0, 9])), notAvro);
    assert.deepEqual({ ...((await reader.read(Buffer.from([0, 0, 0, 0, 9, 2, 97]))) as object) }, { a: 'a' });
    answer = json(200, { schema: 'hunter2' });
    await assert.rejects(reader.read(Buffer.from([0, 0, 0, 0, 8])), notAvro);
  });
});
