import assert from 'node:assert/strict';
import { startManagementServer } from '../../src/manage/server.ts';
import { useLogger } from '../support/log.ts';
import { fakeControls } from './fake-controls.ts';
import { ask, sendRaw, statusOf } from './http-client.ts';
import { defaultOptions, serverHarness } from './server-harness.ts';

const token = 'a-token-of-some-length';

describe('management guard', () => {
  const { start, lines, logger } = serverHarness();
  const problemOf = (body: string): Record<string, unknown> => JSON.parse(body);

  describe('what is wrong with a request', () => {
    it('is told as problem details', async () => {
      const { status, headers, body } = await ask(await start(), '/no%22such"thing');
      assert.equal(status, 404);
      assert.equal(headers['content-type'], 'application/problem+json');
      assert.deepEqual(problemOf(body), {
        type: 'about:blank',
        title: 'Not Found',
        status: 404,
        detail: 'There is no such endpoint, or it is not exposed.',
      });
    });

    for (const path of [
      '/',
      '//metrics',
      '/metrics/',
      '/METRICS',
      '/%6detrics',
      '/__proto__',
      '/constructor',
      '/actuator/health/../../metrics',
      '/actuator/svc-metrics/',
      '/actuator/svc/circuit-breaker',
      '/actuator/health/other',
    ]) {
      it(`404: ${path}`, async () => assert.equal((await ask(await start(), path)).status, 404));
    }

    for (const method of ['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'TRACE']) {
      it(`405: ${method}, with what is allowed`, async () => {
        const { status, headers } = await ask(await start(), '/metrics', { method });
        assert.equal(status, 405);
        assert.equal(headers.allow, 'GET, HEAD');
      });
    }

    for (const host of [
      'evil.example',
      'evil.example:17820',
      '10.0.0.1',
      'localhost.evil.example',
      '127.0.0.1.evil.example',
      '[::2]',
    ]) {
      it(`421: Host ${host}`, async () => {
        const { status, body } = await ask(await start(), '/metrics', { headers: { host } });
        assert.equal(status, 421);
        assert.ok(!body.includes('evil'));
      });
    }
    for (const host of [
      'localhost',
      'LOCALHOST:1',
      'localhost.',
      '127.0.0.1',
      '127.8.9.1:80',
      '[::1]',
      '[::1]:17820',
    ]) {
      it(`200: Host ${host}`, async () => {
        assert.equal((await ask(await start(), '/metrics', { headers: { host } })).status, 200);
      });
    }
    for (const host of [
      '',
      'a b',
      'localhost:port',
      'user@localhost',
      '[::1',
      'localhost/x',
      'localhost:123456',
    ]) {
      it(`400: Host ${JSON.stringify(host)}`, async () => {
        const raw = await sendRaw(
          await start(),
          `GET /metrics HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`,
        );
        assert.equal(statusOf(raw), 400);
      });
    }

    for (const [name, value] of [
      ['origin', 'https://evil.example'],
      ['origin', 'null'],
      ['origin', 'http://localhost:3000'],
      ['sec-fetch-site', 'cross-site'],
      ['sec-fetch-site', 'same-site'],
    ] as const) {
      it(`403: ${name} ${value}`, async () => {
        assert.equal((await ask(await start(), '/metrics', { headers: { [name]: value } })).status, 403);
      });
    }
    it('takes a request of its own site', async () => {
      const port = await start();
      const host = `localhost:${port}`;
      for (const headers of [
        { host, origin: `http://${host}` },
        { host, 'sec-fetch-site': 'same-origin' },
        { host, 'sec-fetch-site': 'none' },
      ] as Record<string, string>[]) {
        assert.equal((await ask(port, '/metrics', { headers })).status, 200);
      }
    });

    describe('behind a proxy that speaks TLS', () => {
      const publicUrl = 'https://ops.example.com/orders';
      const origin = 'https://ops.example.com';
      for (const [status, headers] of [
        [200, { host: 'ops.example.com' }],
        [200, { host: 'OPS.example.com:443', origin }],
        // The proxy may put its own address in the place of the name.
        [200, { host: '127.0.0.1:17820', origin, 'sec-fetch-site': 'same-origin' }],
        [421, { host: 'ops.example.com.evil.example' }],
        [421, { host: 'example.com' }],
        [403, { host: 'ops.example.com', origin: 'http://ops.example.com.evil.example' }],
        [403, { host: 'ops.example.com', origin: 'https://ops.example.com:8443' }],
        [403, { host: 'ops.example.com', origin, 'sec-fetch-site': 'cross-site' }],
      ] as const)
        it(`${status}: ${JSON.stringify(headers)}`, async () => {
          const port = await start({ publicUrl, token: 'a-token-of-some-length' });
          const authorization = 'Bearer a-token-of-some-length';
          assert.equal(
            (await ask(port, '/metrics', { headers: { ...headers, authorization } })).status,
            status,
          );
        });

      it('does not start without a token', async () => {
        const options = { ...defaultOptions, publicUrl };
        useLogger(logger);
        assert.equal(await startManagementServer(options, fakeControls(), true), undefined);
        assert.deepEqual(lines[0]?.[1], { code: 'SVC_MANAGE_TOKEN_REQUIRED' });
      });
    });

    const end = 'Connection: close\r\n\r\n';
    for (const [what, status, text] of [
      ['two Host headers', 400, `GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n${end}`],
      ['no Host header', 400, `GET /metrics HTTP/1.1\r\n${end}`],
      ['no Host header in HTTP/1.0', 400, 'GET /metrics HTTP/1.0\r\n\r\n'],
      ['an absolute target', 400, `GET http://localhost/metrics HTTP/1.1\r\nHost: localhost\r\n${end}`],
      ['an asterisk as target', 400, `OPTIONS * HTTP/1.1\r\nHost: localhost\r\n${end}`],
      ['no HTTP', 400, 'hello\r\n\r\n'],
      ['HTTP/0.9', 400, 'GET /metrics\r\n\r\n'],
      [
        'length and chunks',
        400,
        `GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n${end}0\r\n\r\n`,
      ],
      ['a bare line feed in a header', 400, `GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: a\rb\r\n${end}`],
      [
        'too many header bytes',
        431,
        `GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: ${'a'.repeat(9000)}\r\n${end}`,
      ],
    ] as const) {
      it(`${status}: ${what}`, async () => {
        const raw = await sendRaw(await start(), text);
        assert.equal(statusOf(raw), status, raw);
        assert.match(raw, /content-type: application\/problem\+json/i);
        assert.equal(problemOf(raw.slice(raw.indexOf('\r\n\r\n') + 4)).status, status);
      });
    }

    it('CONNECT gets no connection', async () => {
      assert.equal(
        await sendRaw(await start(), 'CONNECT localhost:22 HTTP/1.1\r\nHost: localhost\r\n\r\n'),
        '',
      );
    });

    it('an Upgrade is answered as a plain request', async () => {
      const raw = await sendRaw(
        await start(),
        'GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close, Upgrade\r\nUpgrade: websocket\r\n\r\n',
      );
      assert.equal(statusOf(raw), 200);
    });

    it('a body is neither asked for nor read: the connection ends', async () => {
      const raw = await sendRaw(
        await start(),
        'GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n',
      );
      assert.equal(statusOf(raw), 200);
      assert.match(raw, /connection: close/i);
    });

    it('garbage after a request does not get its answer in front of that of the request', async () => {
      let asked = 0;
      const health = (): Promise<never> => {
        asked++;
        return new Promise(() => {});
      };
      const port = await start({}, fakeControls({ health }));
      const raw = sendRaw(port, 'GET /actuator/health HTTP/1.1\r\nHost: localhost\r\n\r\n\0garbage\r\n\r\n');
      assert.equal(await raw, '');
      assert.equal(asked, 1);
    });

    it('chunk extensions without end close the connection', async () => {
      const head = 'POST /metrics HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n';
      assert.equal(await sendRaw(await start(), `${head}1;${'a'.repeat(20_000)}\r\n`), '');
    });

    it('408: headers that do not arrive within three seconds', async function () {
      this.timeout(10_000);
      const raw = await sendRaw(await start(), 'GET /metrics HTTP/1.1\r\nHost: local');
      assert.equal(statusOf(raw), 408);
    });
  });

  describe('token', () => {
    const options = { address: '0.0.0.0', token };
    const authorization = `Bearer ${token}`;

    for (const given of [
      undefined,
      'Bearer',
      `Bearer ${token}x`,
      `Bearer ${token.slice(1)}`,
      `Basic ${token}`,
      token,
    ]) {
      it(`401: authorization ${given}`, async () => {
        const port = await start(options);
        const { status, headers } = await ask(
          port,
          '/metrics',
          given === undefined ? {} : { headers: { authorization: given } },
        );
        assert.equal(status, 401);
        assert.equal(
          headers['www-authenticate'],
          given === undefined ? 'Bearer realm="svc"' : 'Bearer realm="svc", error="invalid_token"',
        );
      });
    }

    it('200 with the token, whatever the Host is', async () => {
      const port = await start(options);
      assert.equal(
        (await ask(port, '/metrics', { headers: { authorization, host: 'orders.internal' } })).status,
        200,
      );
      assert.equal(
        (await ask(port, '/metrics', { headers: { authorization: `bearer ${token}` } })).status,
        200,
      );
    });

    it('two Authorization headers are wrong', async () => {
      const header = `Authorization: ${authorization}\r\n`;
      const raw = await sendRaw(
        await start(options),
        `GET /metrics HTTP/1.1\r\nHost: x\r\n${header}${header}Connection: close\r\n\r\n`,
      );
      assert.equal(statusOf(raw), 401);
    });

    it('without it nobody learns which paths exist', async () => {
      const port = await start(options);
      const bodies = new Set<string>();
      for (const path of ['/metrics', '/nothing', '/actuator', '/actuator/info']) {
        const { status, body } = await ask(port, path);
        assert.equal(status, 401);
        bodies.add(body);
      }
      assert.equal(bodies.size, 1);
    });

    it('health answers its bare status to who has none, and 401 to who has a wrong one', async () => {
      const port = await start(options);
      for (const path of ['/actuator/health', '/actuator/health/svc']) {
        const without = await ask(port, path);
        assert.deepEqual([without.status, without.body], [200, '{"status":"UP"}']);
        assert.equal((await ask(port, path, { headers: { authorization: 'Bearer wrong' } })).status, 401);
        const { body } = await ask(port, path, { headers: { authorization } });
        assert.ok(body.includes('clusterId'));
      }
    });

    it('is not asked for on loopback', async () => {
      assert.equal((await ask(await start({ token }), '/metrics')).status, 200);
    });

    it('is not asked for on loopback as an IPv6 address spells it, which the configuration takes as well', async () => {
      const port = await start({ address: '::ffff:127.0.0.1' });
      const { status } = await fetch(`http://127.0.0.1:${port}/metrics`);
      assert.equal(status, 200);
    });

    for (const [what, given] of [
      ['no token', undefined],
      ['a token of 15 characters', 'x'.repeat(15)],
    ] as const) {
      it(`does not start on another address with ${what}`, async () => {
        useLogger(logger);
        const refused = await startManagementServer(
          { ...defaultOptions, address: '0.0.0.0', token: given },
          fakeControls(),
          true,
        );
        assert.equal(refused, undefined);
        assert.equal(lines.length, 1);
        assert.deepEqual(lines[0]?.[1], { code: 'SVC_MANAGE_TOKEN_REQUIRED' });
      });
    }

    it('starts with a token of 16 characters', async () => {
      await start({ address: '0.0.0.0', token: 'x'.repeat(16) });
    });
  });
});
