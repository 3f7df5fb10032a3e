import assert from 'node:assert/strict';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { askProcess, NoAnswer, takeSample } from '../../../src/cli/running.ts';
import { ownStamp, stampText } from '../../../src/ground/claims.ts';
import { fakeControls } from '../../manage/fake-controls.ts';
import { ask } from '../../manage/http-client.ts';
import { serverHarness } from '../../manage/server-harness.ts';

const token = 'a-token-of-some-length';
const actionToken = 'another-token-for-actions';
const reset = '/actuator/svc/circuit-breaker/reset';

describe('commands that ask a process', () => {
  const { start } = serverHarness();
  const urlOf = (port: number): string => `http://127.0.0.1:${port}`;

  describe('and somebody else who listens on its port', () => {
    const seen: string[] = [];
    let fake: ReturnType<typeof createServer>;
    afterEach(() => {
      fake.close();
      seen.length = 0;
    });
    async function listen(answer: RequestListener): Promise<string> {
      fake = createServer((request, response) => {
        seen.push(`${request.method} ${request.url} ${JSON.stringify(request.rawHeaders)}`);
        answer(request, response);
      });
      await new Promise<void>((resolve) => fake.listen(0, '127.0.0.1', resolve));
      return urlOf((fake.address() as AddressInfo).port);
    }
    const says =
      (status: number, challenge?: string): RequestListener =>
      (_, response) => {
        response
          .writeHead(status, challenge === undefined ? {} : { 'www-authenticate': challenge })
          .end('{}');
      };

    for (const [what, answer] of [
      ['that takes all', says(200)],
      ['that wants a bearer token', says(401, 'Bearer realm="svc"')],
      ['with a proof of another token', says(401, 'SvcProof nonce="1.a", process="a.1.1", proof="00"')],
      [
        'that repeats what it was sent',
        (request, response) => {
          const challenge = String(request.headers.authorization);
          response.writeHead(401, { 'www-authenticate': `${challenge}, nonce="1.a", process="a.1.1"` }).end();
        },
      ],
    ] as [string, RequestListener][])
      it(`${what}: the token is not sent, nor a proof of it`, async () => {
        const url = await listen(answer);
        await assert.rejects(askProcess({ url, token }, reset, 'POST'), NoAnswer);
        await takeSample({ url, token }).catch(() => {});
        assert.ok(seen.length > 0);
        for (const each of seen) {
          assert.ok(!each.includes(token), each);
          assert.doesNotMatch(each, /proof=|Bearer/);
        }
      });

    it('that hands on the answers of the process: the proof is good for one request, once', async () => {
      const port = await start({ token });
      const { headers } = await ask(port, reset, {
        method: 'POST',
        headers: { authorization: 'SvcProof challenge="00"' },
      });
      assert.match(String(headers['www-authenticate']), /^SvcProof nonce="/);
      const proofs: string[] = [];
      const url = await listen(async (request, response) => {
        const authorization = String(request.headers.authorization);
        if (authorization.includes('proof=')) {
          proofs.push(authorization);
          return response.writeHead(200).end('{}');
        }
        const answer = await ask(port, request.url as string, {
          method: 'POST',
          headers: { authorization },
        });
        response.writeHead(answer.status, answer.headers).end(answer.body);
      });
      await askProcess({ url, token }, reset, 'POST');
      const [authorization = ''] = proofs;
      const status = async (path: string, method: string): Promise<number> =>
        (await ask(port, path, { method, headers: { authorization } })).status;
      assert.equal(await status('/actuator/svc/keys/invalidate', 'POST'), 401);
      assert.equal(await status(reset, 'POST'), 200);
      assert.equal(await status(reset, 'POST'), 401);
    });
  });

  for (const [what, given, path, method, status] of [
    ['the token that reads', token, '/actuator/svc-metrics', 'GET', 200],
    ['the token that acts, which reads as well', actionToken, '/actuator/svc-metrics', 'GET', 200],
    ['the token that acts', actionToken, reset, 'POST', 200],
    ['the token that only reads, to act', token, reset, 'POST', 403],
  ] as const)
    it(`proves ${what}: ${status}`, async () => {
      const port = await start({ token, actionToken, publicUrl: 'https://ops.example.com' });
      const answer = await askProcess({ url: urlOf(port), token: given }, path, method);
      assert.equal(answer.status, status);
    });

  it('say that a token is wrong, and what is needed where there is none', async () => {
    const url = urlOf(await start({ token, publicUrl: 'https://ops.example.com' }));
    const wrong = 'a-token-that-is-wrong';
    await assert.rejects(
      askProcess({ url, token: wrong }, '/metrics'),
      /refuses the token, or is another server/,
    );
    await assert.rejects(
      askProcess({ url, token: undefined }, '/metrics'),
      /needs a token: give --token-file/,
    );
  });

  it('send nothing of a token where reading needs none', async () => {
    let authorization: string | undefined;
    const port = await start({ token }, fakeControls({ metricsText: async () => 'x 1\n' }));
    const fake = createServer((request, response) => {
      authorization = request.headers.authorization;
      response.end('{}');
    });
    await new Promise<void>((resolve) => fake.listen(0, '127.0.0.1', resolve));
    await askProcess({ url: urlOf((fake.address() as AddressInfo).port), token }, '/metrics');
    fake.close();
    assert.equal(authorization, undefined);
    assert.equal((await askProcess({ url: urlOf(port), token }, '/metrics')).status, 200);
  });

  it('ask the process that its file names, and no later one', async () => {
    const url = urlOf(await start({ token }));
    const own = ownStamp();
    const stamp = stampText(own);
    assert.equal((await askProcess({ url, token, stamp }, reset, 'POST')).status, 200);
    const earlier = stampText({ ...own, began: own.began + 1 });
    await assert.rejects(
      askProcess({ url, token, stamp: earlier }, reset, 'POST'),
      /is not the process of its process file/,
    );
  });
});
