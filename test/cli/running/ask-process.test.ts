import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { ownStamp } from '../../../src/ground/claims.ts';
import { writeProcessFile } from '../../../src/ground/files.ts';
import { fakeControls } from '../../manage/fake-controls.ts';
import { ask } from '../../manage/http-client.ts';
import { serverHarness } from '../../manage/server-harness.ts';
import { temporaryFolder } from '../../support/folders.ts';
import { svcHere } from '../support/svc-here.ts';

const token = 'a-token-of-some-length';
const actionToken = 'another-token-for-actions';
const reset = '/actuator/svc/circuit-breaker/reset';

describe('commands that ask a process', () => {
  const { start } = serverHarness();
  const urlOf = (port: number): string => `http://127.0.0.1:${port}`;
  const cwd = temporaryFolder('ask-process');
  const commands = { resets: [], shows: ['--dry-run'] };

  /** `svc breaker reset`, which asks for an action, or for what a process shows. */
  function svc(what: keyof typeof commands, given: string | undefined, ...more: string[]) {
    const file = join(cwd, 'token');
    writeFileSync(file, given ?? '');
    const args = [
      'breaker',
      'reset',
      ...commands[what],
      ...(given === undefined ? [] : ['--token-file', file]),
    ];
    return svcHere([...args, ...more], { cwd, env: { TMPDIR: cwd } });
  }
  async function refused(end: ReturnType<typeof svc>, says = /^svc: /): Promise<void> {
    const { code, stdout, stderr } = await end;
    assert.deepEqual([code, stdout], [1, '']);
    assert.match(stderr, says);
  }

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
        await refused(svc('resets', token, '--url', url));
        await refused(svc('shows', token, '--url', url));
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
      await refused(svc('resets', token, '--url', url), /^svc: not reset: .* answers 200\n$/);
      const [authorization = ''] = proofs;
      const status = async (path: string, method: string): Promise<number> =>
        (await ask(port, path, { method, headers: { authorization } })).status;
      assert.equal(await status('/actuator/svc/keys/invalidate', 'POST'), 401);
      assert.equal(await status(reset, 'POST'), 200);
      assert.equal(await status(reset, 'POST'), 401);
    });
  });

  for (const [what, given, command, isAllowed] of [
    ['the token that reads', token, 'shows', true],
    ['the token that acts, which reads as well', actionToken, 'shows', true],
    ['the token that acts', actionToken, 'resets', true],
    ['the token that only reads, to act', token, 'resets', false],
  ] as const)
    it(`${isAllowed ? 'prove' : 'are refused with'} ${what}`, async () => {
      const url = urlOf(await start({ token, actionToken, publicUrl: 'https://ops.example.com' }));
      const end = svc(command, given, '--url', url);
      if (!isAllowed) return refused(end, /^svc: not reset: .* answers 403/);
      const { code, stdout, stderr } = await end;
      assert.deepEqual([code, stderr], [0, '']);
      assert.match(stdout, /^broker: no breaker in this process$/m);
    });

  it('say that a token is wrong, and what is needed where there is none', async () => {
    const url = urlOf(await start({ token, publicUrl: 'https://ops.example.com' }));
    const wrong = 'a-token-that-is-wrong';
    for (const command of ['shows', 'resets'] as const) {
      await refused(svc(command, wrong, '--url', url), /refuses the token, or is another server/);
      await refused(svc(command, undefined, '--url', url), /needs a token: give --token-file/);
    }
  });

  it('send nothing of a token where reading needs none', async () => {
    const seen: (string | undefined)[] = [];
    const port = await start({ token }, fakeControls({ metricsText: async () => 'x 1\n' }));
    const fake = createServer((request, response) => {
      seen.push(request.headers.authorization);
      response.end('{ "status": "UP", "details": {} }');
    });
    await new Promise<void>((resolve) => fake.listen(0, '127.0.0.1', resolve));
    const url = urlOf((fake.address() as AddressInfo).port);
    const { code } = await svc('shows', token, '--url', url);
    fake.close();
    assert.equal(code, 0);
    assert.deepEqual(seen, [undefined, undefined]);
    assert.equal((await svc('shows', token, '--url', urlOf(port))).code, 0);
  });

  it('ask the process that its file names, and no later one', async () => {
    const port = await start({ token });
    const own = ownStamp();
    const began = (stamp: typeof own) =>
      writeProcessFile(
        {
          ...{ pid: process.pid, stamp, port, address: '127.0.0.1', tls: false, name: null, version: null },
        },
        join(cwd, `svc-${userInfo().uid}`),
      );
    began(own);
    assert.equal((await svc('resets', token)).code, 0);
    // Without the number of its thread, nobody can tell that it has ended.
    began({ ...own, task: 0, began: own.began + 1 });
    await refused(svc('resets', token), /is not the process of its process file/);
  });
});
