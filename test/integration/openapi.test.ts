import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createConfig, lintFromString } from '@redocly/openapi-core';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { endpointIds } from '../../src/ground/management.ts';
import { openapiDocument } from '../../src/manage/openapi.ts';
import { exposedRoutes } from '../../src/manage/routes.ts';
import { downHealth, downOutbox, fakeControls, upHealth, upOutbox } from '../manage/fake-controls.ts';
import { type Answer, ask } from '../manage/http-client.ts';
import { serverHarness } from '../manage/server-harness.ts';
import { type StartedSvc, startSvc } from './started-svc.ts';

interface Content {
  readonly schema: { readonly $ref: string };
}
interface Operation {
  readonly operationId: string;
  readonly responses: Readonly<Record<string, { readonly content: Readonly<Record<string, Content>> }>>;
}
interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: object;
}

const token = 'a-token-of-some-length';
const authorization = `Bearer ${token}`;
const path = '/actuator/openapi.json';
const whole = openapiDocument(exposedRoutes(['*'])) as Document;
const problemType = 'application/problem+json';

const named = (document: Document): string[] =>
  Object.entries(document.paths)
    .flatMap(([of, methods]) => Object.keys(methods).map((method) => `${method.toUpperCase()} ${of}`))
    .sort();

/** Holds an answer against what the document says of it. */
function checkerOf({ paths, components }: Document) {
  const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true });
  const checks = new Map<string, ValidateFunction>();
  const checkOf = ($ref: string): ValidateFunction => {
    const check = checks.get($ref) ?? ajv.compile({ $ref, components });
    checks.set($ref, check);
    return check;
  };
  return (of: string, method: string, { status, headers, body }: Answer): void => {
    const what = `${method} ${of}: ${status} ${body.slice(0, 300)}`;
    const type = String(headers['content-type']).split(';', 1)[0] as string;
    const content = paths[of]?.[method.toLowerCase()]?.responses[status]?.content[type];
    assert.ok(content, `${what} is not documented as ${type}`);
    const check = checkOf(content.schema.$ref);
    const value: unknown = type.startsWith('text/') ? body : JSON.parse(body);
    assert.ok(check(value), `${what}\n${JSON.stringify(check.errors, null, 1)}`);
  };
}

const noRows = {
  statistics: async () => ({ total: 0, pending: 0, published: 0, failed: 0, avgProcessingTimeMs: 0 }),
  replay: async ({ since }: { readonly since: string }) => ({
    ...{ since, limit: 1, total: 0, success: 0, failed: 0, failedEventIds: [], after: 1 },
  }),
};

describe('the OpenAPI document', function () {
  this.timeout(60_000);
  const { start } = serverHarness();

  it('names each route that is exposed, and no other, each with a name of its own', async () => {
    for (const exposure of [['*'], ...endpointIds.map((id) => [id])]) {
      const routes = exposedRoutes(exposure);
      const port = await start({ exposure });
      const document = JSON.parse((await ask(port, path)).body) as Document;
      const expected = [...routes].map((route) => `${route.method} ${route.path}`).sort();
      assert.deepEqual(named(document), expected);
    }
    const ids = Object.values(whole.paths).flatMap((methods) => Object.values(methods));
    assert.equal(new Set(ids.map(({ operationId }) => operationId)).size, ids.length);
  });

  it('has nothing that a linter finds', async () => {
    const config = await createConfig({ extends: ['recommended'] });
    const found = await lintFromString({ source: JSON.stringify(whole), config });
    assert.deepEqual(
      found.map(({ ruleId, message, location }) => `${ruleId}: ${message} ${location[0]?.pointer}`),
      [],
    );
    const broken = { ...whole, paths: { '/a': { get: { responses: {} } } } };
    assert.notDeepEqual(await lintFromString({ source: JSON.stringify(broken), config }), []);
  });

  it('is for those who may read', async () => {
    const port = await start({ token, address: '0.0.0.0' });
    assert.equal((await ask(port, path)).status, 401);
    assert.equal((await ask(port, path, { headers: { authorization } })).status, 200);
  });

  describe('holds what is answered', () => {
    const check = checkerOf(whole);
    const seen = new Set<string>();
    const see = (of: string, method: string, answer: Answer): void => {
      seen.add(`${method} ${of} ${answer.status}`);
      check(of, method, answer);
    };
    const post = (port: number, of: string, body?: unknown, headers: object = {}): Promise<Answer> =>
      ask(port, of, {
        method: 'POST',
        ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
        headers: {
          ...(body !== undefined && { 'content-type': 'application/json' }),
          ...{ authorization, ...headers },
        },
      });
    const operations = Object.entries(whole.paths).flatMap(([of, methods]) =>
      Object.keys(methods).map((method) => [of, method.toUpperCase()] as const),
    );

    async function askAll(port: number): Promise<void> {
      for (const [of, method] of operations) {
        if (method === 'GET') {
          see(of, method, await ask(port, of, { headers: { authorization } }));
          const accept = 'application/vnd.svc.actuator.v3+json';
          see(of, method, await ask(port, of, { headers: { authorization, accept } }));
        } else see(of, method, await post(port, of, of.endsWith('outbox') ? { since: '1h' } : {}));
      }
      see('/actuator/svc-metrics', 'GET', await ask(port, '/actuator/svc-metrics?shape=flat'));
    }

    it('of a server whose parts are filled, up and down', async () => {
      const keys = [
        { provider: 'aws-kms', keyId: 'customer', status: 'UP' },
        { provider: 'vault', keyId: 'b', status: 'DOWN', error: 'it is sealed' },
      ] as const;
      const full = {
        worker: { id: 5, source: 'kafka' },
        tooLargeEvents: 1,
        keys,
        ageMs: 5.5,
        warning: 'look',
      };
      for (const [health, outbox] of [
        [upHealth, upOutbox],
        [downHealth, downOutbox],
      ] as const) {
        const details = { ...health.details, ...full, outbox, state: 'WARNING', findings: ['one'] } as const;
        await askAll(
          await start(
            { token },
            fakeControls({
              health: async () => ({ status: health.status, details }),
              isReady: async () => health.status === 'UP',
              resetBreakers: () => ({ broker: { before: 'HALF-OPEN', after: 'CLOSED' }, outbox: null }),
              invalidateKeys: async () => ({ keys }),
            }),
          ),
        );
      }
    });

    it('of svc itself, with an outbox, a replay, a recovery and a drain', async () => {
      const folder = mkdtempSync(join(tmpdir(), 'svc-openapi-'));
      const url = `sqlite:${join(folder, 'shop.db')}`;
      const svc: StartedSvc = startSvc(
        { client: 'file', file: { path: folder }, dlqTopic: 'dead' },
        { outbox: { datasource: { url }, initializeSchema: 'always' }, token },
      );
      try {
        const port = Number(new URL(await svc.address()).port);
        await svc.service.producer.publish({ id: 1 }, { eventType: 'ORDER_CREATED' });
        for (let tries = 0; tries < 100; tries++) {
          const { status } = await ask(port, '/actuator/svc-outbox');
          if (status === 200) break;
          await new Promise((done) => setTimeout(done, 50));
        }
        await askAll(port);
        for (const each of ['/actuator/svc/dlq/recover', '/actuator/svc/backup/drain']) {
          see(each, 'POST', await post(port, each, { dryRun: true }));
          await new Promise((done) => setTimeout(done, 300));
          see(each, 'GET', await ask(port, each));
        }
      } finally {
        await svc.end();
        rmSync(folder, { recursive: true, force: true });
      }
    });

    it('of what is refused', async () => {
      const controls = fakeControls({ outbox: noRows });
      const port = await start({ token }, controls);
      for (const [of, method] of operations) {
        const put = (headers: Record<string, string>): Promise<Answer> => ask(port, of, { method, headers });
        see(of, method, await put({ authorization, host: 'evil.example' }));
        see(of, method, await put({ authorization, origin: 'https://evil.example' }));
        const twice = { method, headers: { authorization, host: 'a b' } };
        see(of, method, await ask(port, of, twice));
        if (method !== 'POST') continue;
        see(of, method, await put({ authorization: 'Bearer wrong' }));
        for (const [body, headers] of [
          ['{', {}],
          [{ unknown: 1 }, {}],
          [{}, { 'content-type': 'text/plain' }],
          [' '.repeat(17_000), {}],
        ] as const)
          see(of, method, await post(port, of, body, headers));
        const readers = await start({ token, actionToken: 'another-token-that-acts' });
        see(of, method, await post(readers, of));
        await start({ token, port }, controls);
      }
      const remote = await start({ token, address: '0.0.0.0' });
      for (const [of, method] of operations) {
        const wrong = { authorization: 'Bearer wrong' };
        see(of, method, await ask(remote, of, { method, headers: wrong }));
      }
      const failing = await start(
        {},
        fakeControls({ metricsText: () => Promise.reject(new Error('broken')) }),
      );
      see('/metrics', 'GET', await ask(failing, '/metrics'));
    });

    it('and all that it promises was seen, but for what the tests of single endpoints have', () => {
      const promised = operations.flatMap(([of, method]) =>
        Object.keys(whole.paths[of]?.[method.toLowerCase()]?.responses ?? {})
          .filter((status) => !['404', '409', '429', '500', '503'].includes(status))
          .map((status) => `${method} ${of} ${status}`),
      );
      assert.deepEqual(
        promised.filter((one) => !seen.has(one)),
        [],
      );
      assert.ok(seen.size > 100, String(seen.size));
    });

    it('a status that is not in the document would be found', () => {
      const answer: Answer = { status: 418, headers: { 'content-type': problemType }, body: '{}' };
      assert.throws(() => check('/metrics', 'GET', answer), /is not documented/);
      const other: Answer = { status: 200, headers: { 'content-type': 'application/json' }, body: '{"a":1}' };
      assert.throws(() => check('/actuator/info', 'GET', other), /must have required property/);
    });
  });
});
