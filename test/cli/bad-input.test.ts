import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { hostEnvironment } from '../e2e/support/run-app.ts';
import { temporaryFolder } from '../support/folders.ts';
import { runSvc } from '../support/run-svc.ts';

const cli = resolve(import.meta.dirname, '../../src/cli/main.ts');
const withSince = [
  ...['outbox replay', 'outbox list', 'outbox retry-failed', 'outbox discard --topic old', 'dlq list'],
  ...['dlq recover', 'backup list', 'backup restore', 'backup export --out out', 'tail orders'],
];

describe('commands with what nobody can mean', function () {
  this.timeout(120_000);
  let cwd: string;
  beforeEach(() => {
    cwd = temporaryFolder('bad-input');
    const outbox = { enabled: true, datasource: { url: 'sqlite:./orders.db' } };
    const broker = { client: 'file', topic: 'orders', dlqTopic: 'dead' };
    writeFileSync(join(cwd, 'svc.config.json'), JSON.stringify({ svc: { broker, outbox } }));
  });

  for (const command of withSince)
    it(`${command}: a --since in the future, or that is no time, is a wrong use that touches nothing`, async () => {
      for (const [since, says] of [
        ['2999-01-01', /--since is in the future, so nothing matches/],
        ['yesterday', /--since takes a time such as 2026-03-04T10:00:00Z, or how long ago/],
      ] as const) {
        const { code, stdout, stderr } = await runSvc([...command.split(' '), '--since', since], { cwd });
        assert.deepEqual([code, stdout], [2, ''], stderr);
        assert.match(stderr, says);
      }
      for (const made of ['orders.db', 'svc-topics', 'dlq-backup'])
        assert.equal(existsSync(join(cwd, made)), false, made);
    });

  it('a list that nobody reads to its end stops without a word', async () => {
    const folder = join(cwd, 'dlq-backup');
    mkdirSync(folder, { mode: 0o700 });
    const line = (id: number): string =>
      JSON.stringify({ eventId: `${id}`, originalTopic: 'orders', originalPayload: `{"eventId":"${id}"}` });
    for (let id = 0; id < 3_000; id++) writeFileSync(join(folder, `${id}.json`), line(id), { mode: 0o600 });
    for (const args of [
      ['backup', 'list'],
      ['backup', 'restore', '--dry-run'],
    ]) {
      const child = spawn(process.execPath, [cli, ...args], {
        ...{ cwd, env: hostEnvironment(), stdio: ['ignore', 'pipe', 'pipe'] as const },
      });
      let said = '';
      child.stderr.on('data', (chunk) => {
        said += chunk;
      });
      await once(child.stdout, 'data');
      child.stdout.destroy();
      const [code, signal] = await once(child, 'close');
      assert.equal(signal, null);
      assert.ok(code === 0 || code === 1, `${code}`);
      assert.doesNotMatch(said, /EPIPE|at .*\.ts:\d+/);
    }
  });
});
