import assert from 'node:assert/strict';
import { endpointIds } from '../../src/ground/management.ts';
import { exposedRoutes } from '../../src/manage/routes.ts';
import { fakeControls } from './fake-controls.ts';
import { ask } from './http-client.ts';
import { serverHarness } from './server-harness.ts';

describe('a crawler without a token', () => {
  const { start } = serverHarness();
  const allButConsole = endpointIds.filter((id) => id !== 'svc-console');

  for (const [where, server] of [
    ['off loopback', { address: '0.0.0.0' }],
    ['behind a proxy, which makes it look local', { publicUrl: 'https://ops.example.com' }],
  ] as const)
    it(`${where}: sees the bare status of health, and otherwise one and the same refusal, whatever it asks for`, async () => {
      const fail = (): never => assert.fail('it was done');
      const runs = { start: fail, latest: fail, missing: fail };
      const port = await start(
        // As it is off loopback by default: the page for people is open where it is asked for.
        { token: 'a-token-of-some-length', ...server, exposure: allButConsole },
        fakeControls({
          deadLetterTopic: { missing: fail, newest: fail },
          deadLetterRecovery: runs,
          backupDrain: runs,
          resetBreakers: fail,
          invalidateKeys: fail,
        }),
      );
      const paths = [
        ...exposedRoutes(['*']).map(({ path }) => path),
        '/',
        '/nothing',
        '/actuator/svc/dlq?source=topic',
        '/actuator/svc',
        '/robots.txt',
      ];
      const seen = new Set<string>();
      for (const path of new Set(paths))
        for (const method of ['GET', 'POST', 'PUT', 'DELETE', 'OPTIONS']) {
          const body = method === 'POST' ? '{"dryRun":true}' : undefined;
          const headers = { 'content-type': 'application/json', 'x-forwarded-for': '203.0.113.9' };
          const answer = await ask(port, path, { method, headers, ...(body && { body }) });
          if (path.startsWith('/actuator/health') && method === 'GET')
            assert.equal(answer.body, '{"status":"UP"}');
          else if (path.startsWith('/actuator/health')) assert.equal(answer.status, 405);
          else seen.add(`${answer.status} ${answer.body}`);
        }
      assert.equal(seen.size, 1, [...seen].join('\n'));
      assert.match([...seen][0] as string, /^401 /);
    });
});
