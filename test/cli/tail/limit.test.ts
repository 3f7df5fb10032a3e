import assert from 'node:assert/strict';
import { appendFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from '../../support/folders.ts';
import { runSvc } from '../../support/run-svc.ts';

describe('svc tail --limit', function () {
  this.timeout(60_000);
  const folder = temporaryFolder('tail-limit');
  const file = join(folder, 'orders.ndjson');
  const config = join(folder, 'svc.config.json');
  const line = (id: number, eventType = 'A'): string =>
    `${JSON.stringify({ key: String(id), headers: { eventType }, timestamp: Date.now() - 1000, value: { payload: { id } } })}\n`;

  before(() => {
    writeFileSync(file, [1, 2, 3, 4, 5].map((id) => line(id, id === 2 ? 'B' : 'A')).join(''));
    const broker = { client: 'file', topic: 'orders', file: { path: folder } };
    writeFileSync(config, JSON.stringify({ svc: { broker } }));
  });
  const tail = (...args: string[]) =>
    runSvc(['tail', 'orders', '--config', config, '--json', ...args], { cwd: folder });
  const idsIn = (stdout: string): number[] =>
    stdout
      .split('\n')
      .filter(Boolean)
      .map((text) => JSON.parse(text).value.payload.id);

  for (const [args, ids] of [
    [
      ['--limit', '10'],
      [1, 2, 3, 4, 5],
    ],
    [
      ['--limit', '5'],
      [1, 2, 3, 4, 5],
    ],
    [
      ['--limit', '2'],
      [4, 5],
    ],
    [['--limit', '10', '--type', 'B'], [2]],
    [['--limit', '10', '--type', 'C'], []],
    [
      ['--limit', '10', '--since', '1h'],
      [1, 2, 3, 4, 5],
    ],
    [
      ['--limit', '2', '--since', '1h'],
      [1, 2],
    ],
    [
      ['--limit', '2', '--since', '1h', '--follow'],
      [1, 2],
    ],
  ] as const)
    it(`${args.join(' ')} ends with ${ids.length} of five events`, async () => {
      const { code, stdout, stderr } = await tail(...args);
      assert.deepEqual([code, idsIn(stdout)], [0, ids], stderr);
    });

  it('waits with --follow for those that are still to come', async () => {
    const ended = tail('--limit', '6', '--since', '1h', '--follow');
    setTimeout(() => appendFileSync(file, line(6)), 2_500);
    const { code, stdout } = await ended;
    assert.deepEqual([code, idsIn(stdout)], [0, [1, 2, 3, 4, 5, 6]]);
  });

  it('takes no --follow with --until', async () => {
    const { code, stderr } = await tail('--follow', '--since', '1h', '--until', '0s');
    assert.equal(code, 2);
    assert.match(stderr, /--follow and --until contradict/);
  });
});
