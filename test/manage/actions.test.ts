import assert from 'node:assert/strict';
import { fakeControls } from './fake-controls.ts';
import { type Answer, type Ask, ask, sendRaw, statusOf } from './http-client.ts';
import { serverHarness } from './server-harness.ts';

const token = 'a-token-of-some-length';
const actionToken = 'another-token-that-acts';
const actuatorType = 'application/vnd.svc.actuator.v3+json';
const reset = { broker: { before: 'OPEN', after: 'CLOSED' }, outbox: null } as const;
const anew = { keys: [{ provider: 'aws-kms', keyId: 'customer', status: 'UP' }] } as const;

for (const [path, link, done] of [
  ['/actuator/svc/circuit-breaker/reset', 'svc-circuit-breaker-reset', reset],
  ['/actuator/svc/keys/invalidate', 'svc-keys-invalidate', anew],
] as const)
  describe(path, () => {
    const { start } = serverHarness();
    let resets: number;
    let who: string | undefined;
    beforeEach(() => {
      resets = 0;
    });
    const controls = fakeControls({
      resetBreakers(by) {
        who = by;
        resets++;
        return reset;
      },
      async invalidateKeys(by) {
        who = by;
        resets++;
        return anew;
      },
    });
    const bearer = (text: string): Record<string, string> => ({ authorization: `Bearer ${text}` });
    const post = (port: number, { headers = bearer(token), ...rest }: Ask = {}): Promise<Answer> =>
      ask(port, path, { method: 'POST', headers, ...rest });

    it('answers with what has become of it', async () => {
      const { status, headers, body } = await post(await start({ token }, controls));
      assert.deepEqual([status, headers['content-type']], [200, 'application/json']);
      assert.deepEqual(JSON.parse(body), done);
      assert.equal(resets, 1);
      assert.equal(who, '127.0.0.1 with management.server.token');
    });

    it('answers the versioned media type where it is asked for by name', async () => {
      const { headers } = await post(await start({ token }, controls), {
        headers: { ...bearer(token), accept: actuatorType },
      });
      assert.equal(headers['content-type'], actuatorType);
    });

    describe('with a body', () => {
      const withBody = async (body: string, type: string) =>
        post(await start({ token }, controls), { body, headers: { ...bearer(token), 'content-type': type } });

      it('takes an empty object', async () => {
        for (const type of ['application/json', actuatorType])
          assert.equal((await withBody('{}', type)).status, 200);
        assert.equal(resets, 2);
      });

      for (const [name, body, type, status, detail] of [
        ['with fields', '{"breaker":"outbox"}', 'application/json', 400, 'This action takes no fields.'],
        ['no JSON', '{', 'application/json', 400, 'The body is not a JSON object.'],
        ['a list', '[]', 'application/json', 400, 'The body is not a JSON object.'],
        ['a form', 'a=1', 'application/x-www-form-urlencoded', 415, undefined],
        ['too large', ' '.repeat(16 * 1024 + 1), 'application/json', 413, undefined],
      ] as const)
        it(`${name}: ${status}, and nothing is done`, async () => {
          const answer = await withBody(body, type);
          assert.deepEqual(
            [answer.status, answer.headers['content-type']],
            [status, 'application/problem+json'],
          );
          if (detail !== undefined) assert.equal(JSON.parse(answer.body).detail, detail);
          assert.equal(resets, 0);
        });

      it('that comes in parts is a body, too', async () => {
        const port = await start({ token }, controls);
        const head = `POST ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\nTransfer-Encoding: chunked\r\n\r\n`;
        assert.equal(statusOf(await sendRaw(port, `${head}2\r\n{}\r\n0\r\n\r\n`)), 415);
        assert.equal(resets, 0);
      });
    });

    it('other methods are 405', async () => {
      const port = await start({ token }, controls);
      for (const method of ['GET', 'HEAD', 'PUT', 'DELETE']) {
        const { status, headers } = await ask(port, path, { method, headers: bearer(token) });
        assert.deepEqual([status, headers.allow], [405, 'POST']);
      }
    });

    it('nobody may without a token of either kind', async () => {
      const port = await start({}, controls);
      assert.equal((await post(port, { headers: {} })).status, 401);
      assert.equal(resets, 0);
    });

    it('a token that is wrong is 401, one that only reads 403', async () => {
      const port = await start({ token, actionToken }, controls);
      assert.equal((await post(port, { headers: bearer('wrong') })).status, 401);
      const { status, body } = await post(port);
      assert.equal(status, 403);
      assert.match(JSON.parse(body).detail, /management\.server\.action-token/);
      assert.equal(resets, 0);
      assert.equal((await post(port, { headers: bearer(actionToken) })).status, 200);
      assert.equal(resets, 1);
    });

    it('nobody may where it is switched off, and reading goes on', async () => {
      const excluded = path.slice('/actuator/svc/'.length).replace('/', '-');
      const port = await start({ token, excludedActions: [excluded] }, controls);
      const { status, body } = await post(port);
      assert.deepEqual([status, resets], [403, 0]);
      assert.match(JSON.parse(body).detail, /switched off by management\.actions\.exclude/);
      assert.equal((await post(port, { headers: {} })).status, 401);
      assert.equal((await ask(port, '/actuator', { headers: bearer(token) })).status, 200);
      const other = await start({ token, excludedActions: ['outbox-replay'] }, controls);
      assert.equal((await post(other)).status, 200);
    });

    it('another site may not, whatever it has', async () => {
      const port = await start({ token }, controls);
      const headers = { ...bearer(token), origin: 'https://shop.example' };
      assert.equal((await post(port, { headers })).status, 403);
      assert.equal(resets, 0);
    });

    it('is there with svc-metrics, and stands in the index', async () => {
      const port = await start({ exposure: ['svc-outbox', 'health', 'metrics'], token }, controls);
      assert.equal((await post(port)).status, 404);
      const exposed = await start({ exposure: ['svc-metrics'], token }, controls);
      assert.equal((await post(exposed)).status, 200);
      const { _links } = JSON.parse((await ask(exposed, '/actuator')).body);
      assert.deepEqual(_links[link], { href: path, templated: false });
    });
  });
