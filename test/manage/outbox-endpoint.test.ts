import assert from 'node:assert/strict';
import { type ErrorCode, SvcError } from '../../src/ground/errors.ts';
import type { OutboxControls } from '../../src/manage/controls.ts';
import { fakeControls } from './fake-controls.ts';
import { type Answer, ask, sendRaw, statusOf } from './http-client.ts';
import { serverHarness } from './server-harness.ts';

const token = 'a-token-of-some-length';
const actionToken = 'another-token-that-acts';
const path = '/actuator/svc-outbox';
const actuatorType = 'application/vnd.svc.actuator.v3+json';
const statistics = { total: 9, pending: 2, published: 6, failed: 1, avgProcessingTimeMs: 12.5 };
const result = { total: 3, success: 2, failed: 1, failedEventIds: ['281474976710656'] };

describe('/actuator/svc-outbox', () => {
  const { start } = serverHarness();
  let asked: object[];
  let who: string[];
  beforeEach(() => {
    asked = [];
    who = [];
  });

  const outboxOf = (fails?: ErrorCode): OutboxControls => {
    const orThrow = <T>(value: T): T => {
      if (fails !== undefined) throw new SvcError(fails, 'one line for an operator');
      return value;
    };
    return {
      statistics: async () => orThrow({ ...statistics, ofTheRelay: 'hidden' }),
      replay: async (request, by) => {
        asked.push(request);
        who.push(by);
        return orThrow({ since: request.since, limit: request.limit ?? 1000, ...result });
      },
    };
  };
  const startWith = (fails?: ErrorCode): Promise<number> =>
    start({ token }, fakeControls({ outbox: outboxOf(fails) }));
  const post = (port: number, body: unknown, headers: Record<string, string> = {}): Promise<Answer> =>
    ask(port, path, {
      method: 'POST',
      body: typeof body === 'string' ? body : JSON.stringify(body),
      headers: { 'content-type': 'application/json', authorization: `Bearer ${token}`, ...headers },
    });
  const problemOf = ({ status, headers, body }: Answer): object => {
    assert.equal(headers['content-type'], 'application/problem+json');
    const { type, title, ...rest } = JSON.parse(body);
    assert.deepEqual([type, typeof title, rest.status], ['about:blank', 'string', status]);
    return rest;
  };

  it('GET is the statistics of the specification, and nothing else', async () => {
    const { status, headers, body } = await ask(await startWith(), path);
    assert.deepEqual([status, headers['content-type']], [200, 'application/json']);
    assert.equal(body, JSON.stringify(statistics));
  });

  it('POST is a replay, and its result that of the specification', async () => {
    const port = await startWith();
    const since = '2026-03-04T10:00:00Z';
    const { status, body } = await post(port, { since, limit: 50 });
    assert.equal(status, 200);
    assert.equal(body, JSON.stringify({ since, limit: 50, ...result }));
    await post(port, { since: '2026-03-04' });
    assert.deepEqual(asked, [{ since, limit: 50 }, { since: '2026-03-04' }]);
  });

  it('POST takes what the command takes: a time ago, a type, a topic; and says who asks', async () => {
    const port = await startWith();
    const { status, body } = await post(
      port,
      { since: '90m', type: 'PAID', topic: 'orders' },
      { from: 'ops@example.org' },
    );
    assert.equal(status, 200, body);
    const [{ since, ...rest } = { since: '' }] = asked as { since: string }[];
    assert.deepEqual(rest, { type: 'PAID', topic: 'orders' });
    assert.ok(Math.abs(Date.now() - 5_400_000 - Date.parse(since)) < 10_000, since);
    assert.equal(JSON.parse(body).since, since);
    assert.deepEqual(who, ['127.0.0.1 with management.server.token, From: ops@example.org']);
    const split = await start({ token, actionToken }, fakeControls({ outbox: outboxOf() }));
    await post(split, { since: '2d' }, { authorization: `Bearer ${actionToken}` });
    assert.equal(who[1], '127.0.0.1 with management.server.action-token');
  });

  it('POST of a replay that ended early says where it goes on, and takes that', async () => {
    const outbox: OutboxControls = {
      ...outboxOf(),
      replay: async ({ since, after = 0 }) => ({ since, limit: 1000, ...result, after: after + 3 }),
    };
    const port = await start({ token }, fakeControls({ outbox }));
    const { body } = await post(port, { since: '2026-03-04', after: 17 });
    assert.equal(JSON.parse(body).after, 20);
  });

  for (const type of [
    'application/json; charset=UTF-8',
    actuatorType,
    'application/vnd.spring-boot.actuator.v3+json',
  ])
    it(`POST takes ${type}`, async () => {
      const { status } = await post(
        await startWith(),
        { since: '2026-03-04' },
        { 'content-type': type, accept: actuatorType },
      );
      assert.equal(status, 200);
    });

  for (const [name, body, field, detail] of [
    [
      'without since',
      {},
      'since',
      'since is required: a time in ISO 8601 with its zone, such as 2026-03-04T10:00:00Z, or how long ago, such as 90m or 2d.',
    ],
    [
      'yesterday',
      { since: 'yesterday' },
      'since',
      'since must be a time in ISO 8601 with its zone, such as 2026-03-04T10:00:00Z, or how long ago, such as 90m or 2d.',
    ],
    [
      'without a zone',
      { since: '2026-03-04T10:00:00' },
      'since',
      'since must be a time in ISO 8601 with its zone, such as 2026-03-04T10:00:00Z, or how long ago, such as 90m or 2d.',
    ],
    [
      'a number',
      { since: 1772618400000 },
      'since',
      'since must be a time in ISO 8601 with its zone, such as 2026-03-04T10:00:00Z, or how long ago, such as 90m or 2d.',
    ],
    ['limit 0', { since: '2026-03-04', limit: 0 }, 'limit', 'limit must be a whole number from 1 on.'],
    ['limit 1.5', { since: '2026-03-04', limit: 1.5 }, 'limit', 'limit must be a whole number from 1 on.'],
    [
      'after -1',
      { since: '2026-03-04', after: -1 },
      'after',
      'after must be a whole number from 0 on, from the answer to an earlier replay.',
    ],
    ['limit "5"', { since: '2026-03-04', limit: '5' }, 'limit', 'limit must be a whole number from 1 on.'],
    [
      'another field',
      { since: '2026-03-04', limt: 5 },
      undefined,
      'The body takes the fields since, type, topic, limit, after and dryRun only.',
    ],
    ['in the future', { since: '2999-01-01' }, 'since', 'since lies in the future.'],
    ['dryRun 1', { since: '90m', dryRun: 1 }, 'dryRun', 'dryRun must be true or false.'],
    [
      'type ""',
      { since: '90m', type: '' },
      'type',
      'type must be a string; only events with this value are sent.',
    ],
    [
      'topic 5',
      { since: '90m', topic: 5 },
      'topic',
      'topic must be a string; only events with this value are sent.',
    ],
    ['a list', [1], undefined, 'The body is not a JSON object.'],
    ['no JSON', '{"since":', undefined, 'The body is not a JSON object.'],
  ] as const)
    it(`POST ${name}: 400 that says what is wrong`, async () => {
      const answer = await post(await startWith(), body);
      assert.deepEqual(problemOf(answer), {
        status: 400,
        detail,
        ...(field !== undefined && { field }),
      });
      assert.deepEqual(asked, []);
    });

  it('a body that is too large is 413, by its header and by what comes', async () => {
    const port = await startWith();
    assert.equal((await post(port, ' '.repeat(16 * 1024 + 1))).status, 413);
    const exact = JSON.stringify({ since: '2026-03-04' }).padEnd(16 * 1024);
    assert.equal((await post(port, exact)).status, 200);
    const head = `POST ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`;
    const chunk = `${(16 * 1024 + 1).toString(16)}\r\n${' '.repeat(16 * 1024 + 1)}\r\n0\r\n\r\n`;
    assert.equal(statusOf(await sendRaw(port, head + chunk)), 413);
  });

  it('another media type is 415', async () => {
    const port = await startWith();
    for (const headers of [
      { 'content-type': 'text/plain' },
      { 'content-type': 'application/vnd.svc.actuator.v2+json' },
      { 'content-type': 'application/json; charset=utf-16' },
      { 'content-encoding': 'gzip' },
    ])
      assert.equal((await post(port, { since: '2026-03-04' }, headers)).status, 415);
  });

  it('a client that waits to be asked for its body is asked', async () => {
    const port = await startWith();
    const body = JSON.stringify({ since: '2026-03-04' });
    const head = `POST ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n`;
    const raw = await sendRaw(port, head + body);
    assert.match(raw, /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 OK\r\n/);
  });

  it('without an outbox both are 404, and say how to switch it on', async () => {
    const port = await start({ token });
    for (const answer of [await ask(port, path), await post(port, { since: '2026-03-04' })])
      assert.deepEqual(problemOf(answer), {
        status: 404,
        detail:
          'This application has no outbox: set svc.outbox.enabled: true, and svc.outbox.datasource.url.',
      });
  });

  for (const [code, status] of [
    ['SVC_OUTBOX_REPLAY_BUSY', 409],
    ['SVC_OUTBOX_REPLAY_OPTIONS', 400],
    ['SVC_OUTBOX_UNREACHABLE', 503],
    ['SVC_OUTBOX_TABLE_MISSING', 503],
  ] as const)
    it(`${code} is ${status}`, async () => {
      const port = await startWith(code);
      assert.deepEqual(problemOf(await post(port, { since: '2026-03-04' })), {
        status,
        detail: 'one line for an operator',
      });
    });

  it('six times a minute: 429 with the time to ask again; one that was busy does not count, nor do dry runs', async () => {
    let isBusy = true;
    const outbox = outboxOf();
    const replay: OutboxControls['replay'] = (request, by) => {
      if (isBusy) throw new SvcError('SVC_OUTBOX_REPLAY_BUSY', 'one runs');
      return outbox.replay(request, by);
    };
    const port = await start({ token }, fakeControls({ outbox: { ...outbox, replay } }));
    const body = { since: '2026-03-04' };
    for (let time = 0; time < 10; time++) {
      const { status, headers } = await post(port, body);
      assert.deepEqual([status, headers['retry-after']], [409, '5']);
    }
    isBusy = false;
    for (let time = 0; time < 6; time++) assert.equal((await post(port, body)).status, 200);
    const { status, headers } = await post(port, body);
    assert.equal(status, 429);
    assert.match(headers['retry-after'] ?? '', /^(5\d|60)$/);
    assert.equal(asked.length, 6);
    assert.equal((await post(port, { ...body, dryRun: true })).status, 200);
  });

  it('other methods are 405, and HEAD is GET', async () => {
    const port = await startWith();
    const put = await ask(port, path, { method: 'PUT', headers: { authorization: `Bearer ${token}` } });
    assert.deepEqual([put.status, put.headers.allow], [405, 'GET, HEAD, POST']);
    assert.equal((await ask(port, path, { method: 'HEAD' })).status, 200);
  });

  it('is there only where it is exposed', async () => {
    const port = await start({ exposure: ['health'], token }, fakeControls({ outbox: outboxOf() }));
    assert.equal((await ask(port, path)).status, 404);
    assert.equal((await post(port, { since: '2026-03-04' })).status, 404);
    const only = await start({ exposure: ['svc-outbox'] }, fakeControls({ outbox: outboxOf() }));
    assert.equal((await ask(only, path)).status, 200);
  });

  describe('who may act', () => {
    const body = { since: '2026-03-04' };
    const bearer = (text: string): Record<string, string> => ({ authorization: `Bearer ${text}` });

    it('nobody without a token of either kind', async () => {
      const port = await start({}, fakeControls({ outbox: outboxOf() }));
      assert.equal((await ask(port, path)).status, 200);
      assert.equal((await post(port, body)).status, 401);
    });

    it('the one token does both where it is alone', async () => {
      const port = await startWith();
      assert.equal((await post(port, body)).status, 200);
      assert.equal((await post(port, body, bearer('wrong'))).status, 401);
    });

    it('with a token that acts, the other only reads', async () => {
      const port = await start({ token, actionToken }, fakeControls({ outbox: outboxOf() }));
      assert.deepEqual(problemOf(await post(port, body)), {
        status: 403,
        detail: 'This endpoint needs the token of management.server.action-token.',
      });
      assert.equal((await post(port, body, bearer(actionToken))).status, 200);
      assert.equal((await post(port, body, bearer('wrong'))).status, 401);
      for (const each of [token, actionToken])
        assert.equal((await ask(port, path, { headers: bearer(each) })).status, 200);
    });

    it('a dry run needs no more than reading does', async () => {
      const port = await start({ token, actionToken }, fakeControls({ outbox: outboxOf() }));
      assert.equal((await post(port, { ...body, dryRun: false })).status, 403);
      const { status, body: text } = await post(port, { ...body, dryRun: true });
      assert.deepEqual([status, JSON.parse(text).dryRun], [200, true]);
      assert.deepEqual(asked, [{ ...body, dryRun: true }]);
      assert.equal((await post(port, { ...body, dryRun: true }, bearer('wrong'))).status, 401);
    });

    it('a token that acts alone leaves reading on loopback to everybody', async () => {
      const port = await start({ actionToken }, fakeControls({ outbox: outboxOf() }));
      assert.equal((await ask(port, path)).status, 200);
      assert.equal((await post(port, body)).status, 401);
      assert.equal((await post(port, body, bearer(actionToken))).status, 200);
      assert.equal(asked.length, 1);
    });
  });
});
