import assert from 'node:assert/strict';
import { endpointIds } from '../../src/ground/management.ts';
import { exposedRoutes } from '../../src/manage/routes.ts';
import { startManagementServer } from '../../src/manage/server.ts';
import { useLogger } from '../support/log.ts';
import { downHealth, fakeControls, upHealth } from './fake-controls.ts';
import { ask } from './http-client.ts';
import { defaultOptions, serverHarness } from './server-harness.ts';

const token = 'a-token-of-some-length';

describe('management routes', () => {
  const { start, lines, logger } = serverHarness();

  describe('endpoints', () => {
    for (const path of ['/metrics', '/actuator/prometheus', '/metrics?name=x']) {
      it(`GET ${path} is the Prometheus text`, async () => {
        const { status, headers, body } = await ask(await start(), path);
        assert.equal(status, 200);
        assert.equal(headers['content-type'], 'text/plain; version=0.0.4; charset=utf-8');
        assert.equal(headers['cache-control'], 'no-store');
        assert.equal(headers['x-content-type-options'], 'nosniff');
        assert.equal(body, await fakeControls().metricsText());
        assert.equal(Number(headers['content-length']), Buffer.byteLength(body));
      });
    }

    it('GET /actuator/health/svc is 200 with the details when UP', async () => {
      const { status, headers, body } = await ask(await start(), '/actuator/health/svc');
      assert.equal(status, 200);
      assert.equal(headers['content-type'], 'application/json');
      assert.deepEqual(JSON.parse(body), upHealth);
    });

    it('GET /actuator/health/svc is 503 with the error when DOWN', async () => {
      const port = await start({}, fakeControls({ health: async () => downHealth }));
      const { status, body } = await ask(port, '/actuator/health/svc');
      assert.equal(status, 503);
      assert.deepEqual(JSON.parse(body), downHealth);
    });

    it('GET /actuator/health sums up', async () => {
      const up = await ask(await start(), '/actuator/health');
      assert.equal(up.status, 200);
      assert.deepEqual(JSON.parse(up.body), { status: 'UP', components: { svc: upHealth } });
      const down = await ask(
        await start({ showDetails: 'never' }, fakeControls({ health: async () => downHealth })),
        '/actuator/health',
      );
      assert.equal(down.status, 503);
      assert.deepEqual(JSON.parse(down.body), { status: 'DOWN' });
    });

    it('liveness and readiness are UP while the broker is not, and show nothing', async () => {
      const port = await start({}, fakeControls({ health: async () => downHealth }));
      for (const path of ['liveness', 'readiness']) {
        const { status, body } = await ask(port, `/actuator/health/${path}`);
        assert.deepEqual([status, body], [200, '{"status":"UP"}']);
      }
    });

    it('readiness is DOWN while the instance does not do its work, whatever the broker says; liveness never', async () => {
      for (const [isReady, expected] of [
        [false, [503, '{"status":"DOWN"}']],
        [true, [200, '{"status":"UP"}']],
      ] as const) {
        const port = await start({}, fakeControls({ isReady: async () => isReady }));
        const { status, body } = await ask(port, '/actuator/health/readiness');
        assert.deepEqual([status, body], expected);
        assert.equal((await ask(port, '/actuator/health/liveness')).status, 200);
      }
    });

    it('readiness is that of the broker where it was asked for', async () => {
      const down = fakeControls({ health: async () => downHealth });
      for (const [controls, expected] of [
        [down, [503, '{"status":"DOWN"}']],
        [fakeControls(), [200, '{"status":"UP"}']],
      ] as const) {
        const port = await start({ readinessNeedsBroker: true }, controls);
        const { status, body } = await ask(port, '/actuator/health/readiness');
        assert.deepEqual([status, body], expected);
      }
    });

    it('show-details never shows the status only, with a token as well', async () => {
      const port = await start({ showDetails: 'never', token });
      for (const headers of [{}, { authorization: `Bearer ${token}` }]) {
        const { body } = await ask(port, '/actuator/health/svc', { headers });
        assert.equal(body, '{"status":"UP"}');
      }
    });

    it('show-details when-authorized shows details to who has the token', async () => {
      const port = await start({ showDetails: 'when-authorized', token });
      assert.equal((await ask(port, '/actuator/health/svc')).body, '{"status":"UP"}');
      const { body } = await ask(port, '/actuator/health/svc', {
        headers: { authorization: `Bearer ${token}` },
      });
      assert.deepEqual(JSON.parse(body), upHealth);
    });

    it('GET /actuator/info names the service and svc', async () => {
      const { body } = await ask(await start(), '/actuator/info');
      assert.deepEqual(JSON.parse(body), {
        service: { name: 'orders', version: '1.4.0' },
        svc: { version: '0.1.0' },
      });
    });

    it('GET /actuator/svc/targets and /dlq say what is captured and what went wrong, to those who may read', async () => {
      const port = await start({ token, address: '0.0.0.0' });
      for (const path of ['/actuator/svc/targets', '/actuator/svc/dlq']) {
        assert.equal((await ask(port, path)).status, 401);
        const post = await ask(port, path, {
          method: 'POST',
          headers: { authorization: `Bearer ${token}` },
        });
        assert.equal(post.status, 405);
      }
      const read = async (path: string) => {
        const { status, body } = await ask(port, path, { headers: { authorization: `Bearer ${token}` } });
        assert.equal(status, 200);
        return JSON.parse(body);
      };
      assert.deepEqual(await read('/actuator/svc/targets'), { targets: fakeControls().targets() });
      assert.deepEqual(await read('/actuator/svc/dlq'), fakeControls().deadLetters());
      const closed = await start({ token, exposure: ['health'] });
      assert.equal((await ask(closed, '/actuator/svc/dlq')).status, 404);
    });

    it('GET /actuator links what is exposed, and only that', async () => {
      const all = JSON.parse((await ask(await start(), '/actuator')).body);
      assert.deepEqual(all, {
        _links: {
          prometheus: { href: '/actuator/prometheus', templated: false },
          'svc-console': { href: '/actuator/svc', templated: false },
          metrics: { href: '/actuator/metrics', templated: false },
          openapi: { href: '/actuator/openapi.json', templated: false },
          self: { href: '/actuator', templated: false },
          health: { href: '/actuator/health', templated: false },
          'health-svc': { href: '/actuator/health/svc', templated: false },
          'health-liveness': { href: '/actuator/health/liveness', templated: false },
          'health-readiness': { href: '/actuator/health/readiness', templated: false },
          info: { href: '/actuator/info', templated: false },
          'svc-metrics': { href: '/actuator/svc-metrics', templated: false },
          'svc-targets': { href: '/actuator/svc/targets', templated: false },
          'svc-dlq': { href: '/actuator/svc/dlq', templated: false },
          'svc-circuit-breaker-reset': { href: '/actuator/svc/circuit-breaker/reset', templated: false },
          'svc-keys-invalidate': { href: '/actuator/svc/keys/invalidate', templated: false },
          'svc-outbox': { href: '/actuator/svc-outbox', templated: false },
          'svc-dlq-recover': { href: '/actuator/svc/dlq/recover', templated: false },
          'svc-backup-drain': { href: '/actuator/svc/backup/drain', templated: false },
        },
      });
      const port = await start({ exposure: ['info'] });
      assert.deepEqual(Object.keys(JSON.parse((await ask(port, '/actuator')).body)._links), [
        'openapi',
        'self',
        'info',
      ]);
    });

    for (const [accept, type] of [
      ['application/vnd.svc.actuator.v3+json', 'application/vnd.svc.actuator.v3+json'],
      ['text/html, application/vnd.svc.actuator.v3+json;q=0.5', 'application/vnd.svc.actuator.v3+json'],
      ['application/vnd.svc.actuator.v3+json;q=0', 'application/json'],
      ['application/vnd.svc.actuator.v2+json', 'application/json'],
      ['*/*', 'application/json'],
    ] as const) {
      it(`Accept: ${accept} gets ${type}`, async () => {
        const { headers } = await ask(await start(), '/actuator/info', { headers: { accept } });
        assert.equal(headers['content-type'], type);
      });
    }

    it('HEAD has the headers of GET and no body', async () => {
      const port = await start();
      for (const path of ['/metrics', '/actuator/health/svc', '/nothing']) {
        const get = await ask(port, path);
        const head = await ask(port, path, { method: 'HEAD' });
        assert.equal(head.status, get.status);
        assert.equal(head.body, '');
        for (const name of ['content-type', 'content-length', 'cache-control']) {
          assert.equal(head.headers[name], get.headers[name]);
        }
      }
    });

    it('a failure inside is 500 without its reason, which the log has', async () => {
      const port = await start(
        {},
        fakeControls({
          metricsText: async () => {
            throw new Error('ledger broke');
          },
        }),
      );
      const { status, body } = await ask(port, '/metrics');
      assert.equal(status, 500);
      assert.ok(!body.includes('ledger broke'));
      assert.deepEqual(lines, [
        ['a management endpoint failed', { path: '/metrics', error: 'ledger broke' }],
      ]);
      assert.equal((await ask(port, '/actuator/info')).status, 200);
    });
  });

  describe('exposure', () => {
    const cases: [string[], Record<string, number>][] = [
      [
        ['health'],
        { '/actuator/health': 200, '/actuator/health/svc': 200, '/metrics': 404, '/actuator/info': 404 },
      ],
      [['prometheus'], { '/metrics': 200, '/actuator/prometheus': 200, '/actuator/health': 404 }],
      [['metrics'], { '/metrics': 200, '/actuator/prometheus': 404 }],
      [['svc-metrics', 'svc-outbox'], { '/actuator': 200, '/metrics': 404, '/actuator/health': 404 }],
      [['*'], { '/metrics': 200, '/actuator/health/svc': 200, '/actuator/info': 200 }],
    ];
    for (const [exposure, statuses] of cases) {
      it(`include ${exposure.join()}`, async () => {
        const port = await start({ exposure });
        const found: Record<string, number> = {};
        for (const path of Object.keys(statuses)) found[path] = (await ask(port, path)).status;
        assert.deepEqual(found, statuses);
      });
    }

    it('nothing included: no server', async () => {
      useLogger(logger);
      assert.equal(
        await startManagementServer({ ...defaultOptions, exposure: [] }, fakeControls(), true),
        undefined,
      );
    });
  });
});

describe('endpoints that may be exposed', () => {
  it('have a route each', () => {
    const always = exposedRoutes([]).length;
    const without = endpointIds.filter((id) => exposedRoutes([id]).length === always);
    assert.deepEqual(without, []);
  });
});
