import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import { runProgram } from '../../support/run-svc.ts';

const demo = resolve(import.meta.dirname, '../../../scripts/demo.ts');

describe('npm run demo', function () {
  this.timeout(100_000);
  let stdout: string;

  const run = (...args: string[]) => runProgram(process.execPath, [demo, ...args], { timeout: 90_000 });

  before(async () => {
    const ended = await run();
    assert.equal(ended.code, 0, `${ended.stdout}\n${ended.stderr}`);
    stdout = ended.stdout;
  });

  it('is one screen', () => {
    const lines = stdout.trimEnd().split('\n');
    assert.ok(lines.length <= 40, `${lines.length} lines`);
    assert.deepEqual(
      lines.filter((line) => line.length > 100),
      [],
    );
  });

  it('shows an event and its trace: the same trace, and one of its spans', () => {
    const [, traceId, spanId] = /traceId (\w{32}), spanId (\w{16})\n/.exec(stdout) ?? [];
    assert.equal(traceId, '4bf92f3577b34da6a3ce929d0e0e4736');
    assert.match(
      stdout,
      new RegExp(
        `SERVER POST .*\\n(?:.*\\n)*? +PRODUCER send orders\\.events\\.v1 +[\\d.]+ ms {3}span ${spanId} {2}= this event\\n`,
      ),
    );
  });

  it('masks personal data in what it shows of the event', () => {
    const [request, ...shown] = stdout.split('\n').filter((line) => /"customer"/.test(line));
    assert.match(request ?? '', /"Ada Lovelace","email":"ada\.lovelace@example\.com"/);
    assert.equal(shown.length, 1);
    assert.doesNotMatch(shown.join(), /Lovelace|lovelace/);
  });

  it('accounts for every call, through an outage', () => {
    const [, calls, published, backup, lost] =
      /(\d+) calls = (\d+) published \+ (\d+) through the backup \+ (\d+) lost\n/.exec(stdout)?.map(Number) ??
      [];
    assert.equal(Number(published) + Number(backup), calls);
    assert.equal(lost, 0);
    // Seven orders of two events each, and what came behind them.
    assert.ok(Number(backup) >= 14, stdout);
    assert.match(
      stdout,
      new RegExp(
        `${calls} events over \\d+ keys in the topics: 0 twice, 0 out of order, 0 with personal data in clear\\n`,
      ),
    );
  });

  it('-- --outbox: only what was committed has events', async () => {
    const { code, stdout, stderr } = await run('--outbox');
    assert.equal(code, 0, stderr);
    assert.match(stdout, /\n {3}2 orders, 4 events stored, 4 published, 4 in the topics; none of the order/);
  });

  it('refuses an option that it does not know', async () => {
    const { code, stderr } = await run('--kafak');
    assert.notEqual(code, 0);
    assert.match(stderr, /--kafak/);
  });
});
