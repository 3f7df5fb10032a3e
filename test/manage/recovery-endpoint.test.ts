import assert from 'node:assert/strict';
import type { RecoveryAsk, RecoveryControls, RecoveryRun } from '../../src/manage/controls.ts';
import { fakeControls } from './fake-controls.ts';
import { type Answer, ask } from './http-client.ts';
import { serverHarness } from './server-harness.ts';

const token = 'a-token-of-some-length';
const actionToken = 'another-token-that-acts';

const runOf = (dryRun: boolean): RecoveryRun => ({
  ...{ id: '5e1f', state: 'RUNNING', dryRun, startedAt: '2026-03-04T10:00:00.000Z', endedAt: null },
  ...{ total: null, matched: 0, skipped: 0, sent: 0, failed: 0, unreadable: 0, problems: [], error: null },
});

for (const [path, kind, action, other] of [
  ['/actuator/svc/dlq/recover', 'deadLetterRecovery', 'dlq-recover', 'backup-drain'],
  ['/actuator/svc/backup/drain', 'backupDrain', 'backup-drain', 'dlq-recover'],
] as const)
  describe(path, () => {
    const { start, lines } = serverHarness();
    let asked: RecoveryAsk[];
    let who: string[];
    let isRunning: boolean;
    let missing: string | undefined;
    beforeEach(() => {
      [asked, who, isRunning, missing] = [[], [], false, undefined];
    });
    const recovery: RecoveryControls = {
      start(given, by) {
        if (isRunning) return undefined;
        asked.push(given);
        who.push(by);
        return runOf(given.dryRun);
      },
      latest: () => ({ run: runOf(false), dryRun: null }),
      missing: () => missing,
    };
    const controls = fakeControls({ [kind]: recovery });
    const post = (port: number, body?: unknown, bearer: string | undefined = token): Promise<Answer> =>
      ask(port, path, {
        method: 'POST',
        ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
        headers: {
          ...(body !== undefined && { 'content-type': 'application/json' }),
          ...(bearer !== '' && { authorization: `Bearer ${bearer}` }),
        },
      });

    it('POST begins a run of everything and answers 202 with it; GET says how far it is', async () => {
      const port = await start({ token }, controls);
      const { status, body } = await post(port);
      assert.deepEqual([status, JSON.parse(body)], [202, runOf(false)]);
      assert.deepEqual(JSON.parse(JSON.stringify(asked)), [{ dryRun: false }]);
      assert.deepEqual(who, ['127.0.0.1 with management.server.token']);
      const progress = await ask(port, path);
      assert.deepEqual(
        [progress.status, JSON.parse(progress.body)],
        [200, { run: runOf(false), dryRun: null }],
      );
    });

    it('POST takes filters, a rate and a limit', async () => {
      const port = await start({ token }, controls);
      const body = { type: 'PAID', topic: ['a', 'b'], since: '2h', until: '2026-03-04T10:00:00Z', to: 'c' };
      assert.equal((await post(port, { ...body, since: '2026-03-01', rate: 5, limit: 7 })).status, 202);
      assert.deepEqual(
        { from: undefined, ...asked[0] },
        {
          ...{
            from: undefined,
            types: ['PAID'],
            topics: ['a', 'b'],
            to: 'c',
            rate: 5,
            limit: 7,
            dryRun: false,
          },
          ...{ since: Date.parse('2026-03-01'), until: Date.parse('2026-03-04T10:00:00Z') },
        },
      );
    });

    for (const [body, field, detail] of [
      [{ since: '2999-01-01' }, 'since', 'since lies in the future.'],
      [{ since: 'yesterday' }, 'since', /^since must be a time in ISO 8601/],
      [{ since: '2026-03-04T10:00:00' }, 'since', /^since must be a time/],
      [{ since: 5 }, 'since', /^since must be a time/],
      [{ since: '1h', until: '2h' }, 'since', 'since is not before until.'],
      [{ until: null }, 'until', /^until must be a time/],
      [{ type: [] }, 'type', /^type must be a string or a list/],
      [{ topic: [''] }, 'topic', /^topic must be a string or a list/],
      [{ topic: Array(101).fill('t') }, 'topic', /list of up to 100/],
      [{ to: 1 }, 'to', /^to must be a string/],
      [{ rate: 0 }, 'rate', 'rate must be a whole number from 1 on.'],
      ['{"limit":1e400}', 'limit', 'limit must be a whole number from 1 on.'],
      [{ limit: '5' }, 'limit', 'limit must be a whole number from 1 on.'],
      ['{"limit":-0}', 'limit', 'limit must be a whole number from 1 on.'],
      [{ dryRun: 'yes' }, 'dryRun', 'dryRun must be true or false.'],
      ['{"__proto__":{"dryRun":true}}', undefined, /takes the fields .* only\.$/],
      [{ limt: 5 }, undefined, /takes the fields .* only\.$/],
      [[], undefined, 'The body is not a JSON object.'],
      ['{', undefined, 'The body is not a JSON object.'],
    ] as const)
      it(`POST ${JSON.stringify(body).slice(0, 60)}: 400 that says what is wrong, and nothing begins`, async () => {
        const { status, body: text } = await post(await start({ token }, controls), body);
        const found = JSON.parse(text);
        assert.deepEqual([status, found.field], [400, field], text);
        if (typeof detail === 'string') assert.equal(found.detail, detail);
        else assert.match(found.detail, detail);
        assert.deepEqual(asked, []);
      });

    it('where there is nothing to recover from: 404 that says what to set', async () => {
      missing = 'set it';
      const { status, body } = await post(await start({ token }, controls));
      assert.deepEqual([status, JSON.parse(body).detail], [404, 'set it']);
    });

    it('one at a time: 409 with the time to ask again, which does not count as begun', async () => {
      const port = await start({ token }, controls);
      isRunning = true;
      for (let time = 0; time < 10; time++) {
        const { status, headers, body } = await post(port);
        assert.deepEqual([status, headers['retry-after']], [409, '5'], body);
      }
      isRunning = false;
      assert.equal((await post(port)).status, 202);
    });

    it('six times a minute: 429 with the time to ask again; dry runs count for themselves', async () => {
      const port = await start({ token }, controls);
      for (let time = 0; time < 6; time++) assert.equal((await post(port)).status, 202);
      const { status, headers, body } = await post(port);
      assert.equal(status, 429, body);
      const seconds = Number(headers['retry-after']);
      assert.ok(seconds > 50 && seconds <= 60, String(seconds));
      assert.match(JSON.parse(body).detail, /started 6 times within a minute. Try again in \d+ s\.$/);
      assert.equal(asked.length, 6);
      assert.equal((await post(port, { dryRun: true })).status, 202);
    });

    describe('a dry run', () => {
      it('needs no more than reading does', async () => {
        const port = await start({ token, actionToken }, controls);
        const refused = await post(port, {});
        assert.deepEqual([refused.status, /action-token/.test(refused.body)], [403, true]);
        assert.equal((await post(port, { dryRun: false })).status, 403);
        assert.equal((await post(port, { limit: 'x' })).status, 403, 'nothing is told of the body');
        assert.equal((await post(port, { dryRun: true })).status, 202);
        assert.equal((await post(port, { dryRun: true }, actionToken)).status, 202);
        assert.equal((await post(port, { dryRun: true }, 'wrong')).status, 401);
        assert.deepEqual(who, [
          '127.0.0.1 with management.server.token',
          '127.0.0.1 with management.server.action-token',
        ]);
        assert.ok(asked.every(({ dryRun }) => dryRun));
      });

      it('on loopback anybody may who may read, and nobody may do more', async () => {
        const port = await start({}, controls);
        assert.equal((await post(port, { dryRun: true }, '')).status, 202);
        for (const body of [undefined, {}, { dryRun: false }, '{'])
          assert.equal((await post(port, body, '')).status, 401);
        assert.equal(asked.length, 1);
      });

      it('elsewhere nobody may without a token', async () => {
        const port = await start({ token, address: '0.0.0.0' }, controls);
        for (const given of ['', 'wrong'])
          assert.equal((await post(port, { dryRun: true }, given)).status, 401);
        assert.equal((await ask(port, path)).status, 401);
        assert.deepEqual(asked, []);
      });
    });

    it('nobody may where it is switched off, not even try it; reading goes on', async () => {
      const port = await start({ token, excludedActions: [action] }, controls);
      for (const body of [undefined, { dryRun: true }]) {
        const { status, body: text } = await post(port, body);
        assert.equal(status, 403);
        assert.match(text, new RegExp(`${action} is switched off by management\\.actions\\.exclude`));
      }
      assert.deepEqual(asked, []);
      assert.equal((await ask(port, path)).status, 200);
      assert.equal((await post(await start({ token, excludedActions: [other] }, controls))).status, 202);
    });

    it('what is refused is in the log, with who asked and why, once in a while', async () => {
      const port = await start({ token, actionToken }, controls);
      for (let time = 0; time < 3; time++) await post(port);
      assert.deepEqual(lines, [
        [
          `management: ${action}, requested by 127.0.0.1 with management.server.token, is refused: 403, This endpoint needs the token of management.server.action-token.`,
          undefined,
        ],
      ]);
    });

    it('another site may not, and other methods are 405', async () => {
      const port = await start({ token }, controls);
      const headers = { authorization: `Bearer ${token}`, origin: 'https://shop.example' };
      assert.equal((await ask(port, path, { method: 'POST', headers })).status, 403);
      const put = await ask(port, path, { method: 'PUT', headers: { authorization: `Bearer ${token}` } });
      assert.deepEqual([put.status, put.headers.allow], [405, 'GET, HEAD, POST']);
      assert.deepEqual(asked, []);
    });
  });

describe('where a drain begins', () => {
  const { start } = serverHarness();
  it('is named with from', async () => {
    const asked: RecoveryAsk[] = [];
    const backupDrain: RecoveryControls = {
      start: (given) => {
        asked.push(given);
        return runOf(false);
      },
      latest: () => ({ run: null, dryRun: null }),
      missing: () => undefined,
    };
    const port = await start({ token }, fakeControls({ backupDrain }));
    const post = (path: string, body: object): Promise<Answer> =>
      ask(port, path, {
        ...{ method: 'POST', body: JSON.stringify(body) },
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      });
    assert.equal((await post('/actuator/svc/backup/drain', { from: 's3' })).status, 202);
    assert.equal(asked[0]?.from, 's3');
    const { status, body } = await post('/actuator/svc/backup/drain', { from: '/etc' });
    assert.deepEqual([status, JSON.parse(body).detail], [400, 'from must be local or s3.']);
    assert.equal((await post('/actuator/svc/dlq/recover', { from: 's3' })).status, 400);
  });
});
