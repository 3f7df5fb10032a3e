import assert from 'node:assert/strict';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { temporaryFolder } from '../support/folders.ts';
import { type CommandEnd, runProgram } from '../support/run-svc.ts';

const script = resolve(import.meta.dirname, '../../scripts/dlq-recovery.sh');

/** What stands in for `svc`: it says what it was called with. */
const echo = 'console.log(JSON.stringify(process.argv.slice(2)));';

describe('scripts/dlq-recovery.sh', function () {
  this.timeout(20_000);
  let folder: string;
  beforeEach(() => {
    folder = temporaryFolder('script');
    writeFileSync(join(folder, 'echo.cjs'), echo);
  });

  const run = (args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<CommandEnd> =>
    runProgram('sh', [script, ...args], { cwd: folder, env: { NODE: process.execPath, ...env } });

  for (const [args, means] of [
    [[], 'dlq recover'],
    [['--list'], 'dlq list'],
    [['--topic', 'dead', '--broker', 'a:1'], 'dlq recover --broker a:1 --dlq-topic dead'],
    [['--topic=dead', '--list', '--broker=a:1'], 'dlq list --broker=a:1 --dlq-topic dead'],
    [['--dir', '/data'], 'backup restore --dir /data'],
    [['--dir=/data', '--list', '--json'], 'backup list --json --dir /data'],
    [['--file', '1.json', '--topic', 'orders'], 'backup restore --file 1.json --to orders'],
    [
      ['--rate', '5', '--dir', 'd', '--type', 'A', '--type', 'B'],
      'backup restore --rate 5 --type A --type B --dir d',
    ],
    [['--s3', '--list', '--topic', 'orders'], 'backup list --s3 --to orders'],
    [
      ['--meant-for', 'a', '--topic', 'dead', '--meant-for=b'],
      'dlq recover --topic a --topic b --dlq-topic dead',
    ],
    [['--s3', '--rate', '5'], 'backup restore --rate 5 --s3'],
    [['--since', '2h', '--dry-run'], 'dlq recover --since 2h --dry-run'],
  ] as const) {
    it(`${args.join(' ') || 'without options'} is svc ${means}`, async () => {
      const { code, stdout } = await run(args, { SVC: join(folder, 'echo.cjs') });
      assert.deepEqual([code, JSON.parse(stdout)], [0, means.split(' ')]);
    });
  }

  it('keeps values with spaces and quotes whole', async () => {
    const args = ['--dir', '/my data/*', '--type', `it's "A" $HOME`];
    const { stdout } = await run(args, { SVC: join(folder, 'echo.cjs') });
    assert.deepEqual(JSON.parse(stdout), ['backup', 'restore', '--type', args[3], '--dir', args[1]]);
  });

  for (const args of [['--dir'], ['--file', ''], ['--topic='], ['--list', '--topic']]) {
    it(`${args.join(' ')}: a value is missing`, async () => {
      const { code, stderr } = await run(args, { SVC: join(folder, 'echo.cjs') });
      assert.deepEqual([code, /^dlq-recovery\.sh: --\w+ needs a value\n$/.test(stderr)], [2, true], stderr);
    });
  }

  it('finds svc beside itself, through a link and from any folder', async () => {
    const bin = resolve(import.meta.dirname, '../../src/cli/main.ts');
    symlinkSync(script, join(folder, 'recover'));
    const text = readFileSync(script, 'utf8');
    assert.match(text, /\$here\/\.\.\/bin\/svc\.cjs/);
    const { code, stderr } = await runProgram('sh', [join(folder, 'recover'), '--dir', 'gone', '--list'], {
      cwd: folder,
      env: { NODE: process.execPath, SVC: bin },
    });
    assert.deepEqual(
      [code, stderr],
      [1, `svc: the backup folder "${join(folder, 'gone')}" does not exist\n`],
    );
  });

  it('an option that svc does not know is refused', async () => {
    const bin = resolve(import.meta.dirname, '../../src/cli/main.ts');
    const { code, stderr } = await run(['--nonsense'], { SVC: bin });
    assert.deepEqual(
      [code, stderr],
      [2, "svc: unknown option '--nonsense'; see npx --no svc dlq recover --help\n"],
    );
  });

  it('--help', async () => {
    const { code, stdout } = await run(['--help']);
    assert.deepEqual([code, stdout.startsWith('Usage: dlq-recovery.sh [--list]')], [0, true]);
  });
});
