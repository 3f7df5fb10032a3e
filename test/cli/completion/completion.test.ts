import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { commandTree } from '../../../src/cli/commands.ts';
import { temporaryFolder } from '../../support/folders.ts';
import { runProgram, runSvc } from '../../support/run-svc.ts';

const all = (command: Command): Command[] => [command, ...command.commands.flatMap(all)];
const tree = all(commandTree());

describe('svc completion', function () {
  this.timeout(60_000);
  const scripts = new Map<string, string>();
  before(async () => {
    for (const shell of ['bash', 'zsh', 'fish']) {
      const { code, stdout, stderr } = await runSvc(['completion', shell]);
      assert.deepEqual([code, stderr], [0, '']);
      scripts.set(shell, stdout);
    }
  });

  for (const shell of ['bash', 'zsh', 'fish'])
    it(`${shell}: names each command and each option, and none that is not there`, () => {
      const script = scripts.get(shell) as string;
      const options = new Set(tree.flatMap(({ options }) => options.map(({ long }) => long ?? '')));
      const pattern = shell === 'fish' ? /-l ([a-z0-9-]+)/g : /--([a-z][a-z0-9-]*)/g;
      const named = new Set([...script.matchAll(pattern)].map(([, name]) => `--${name}`));
      const known = new Set([...options, '--help']);
      assert.deepEqual(
        [...known].filter((each) => !named.has(each)),
        [],
      );
      for (const command of tree.filter(({ parent }) => parent !== null))
        assert.match(script, new RegExp(`[ '(]${command.name()}[ ':)]`));
      if (shell === 'fish')
        assert.deepEqual(
          [...named].filter((each) => !known.has(each)),
          [],
        );
    });

  it('bash completes commands, their options, and files behind an option that takes one', async () => {
    const folder = temporaryFolder('completion');
    const file = join(folder, 'svc.bash');
    writeFileSync(file, scripts.get('bash') as string);
    const completed = async (...words: string[]) => {
      const line = words.map((word) => `'${word}'`).join(' ');
      const script = `source '${file}'; COMP_WORDS=(svc ${line}); COMP_CWORD=${words.length}; _svc; printf '%s\\n' "\${COMPREPLY[@]}"`;
      const { stdout, stderr } = await runProgram('bash', ['-c', script], { cwd: folder });
      assert.equal(stderr, '');
      return stdout.split('\n').filter(Boolean);
    };
    assert.deepEqual(await completed('d'), ['doctor', 'dlq', 'decrypt']);
    assert.deepEqual(await completed('outbox', 're'), ['replay', 'retry-failed']);
    assert.deepEqual(await completed('dlq', 'list', '--si'), ['--since']);
    assert.deepEqual(await completed('tail', 'dlq', '--li'), ['--limit']);
    assert.deepEqual(await completed('dlq', 'list', '--config', 'svc.b'), ['svc.bash']);
  });

  it('another shell is a wrong use', async () => {
    const { code, stdout, stderr } = await runSvc(['completion', 'tcsh']);
    assert.deepEqual([code, stdout], [2, '']);
    assert.match(stderr, /svc completion takes bash, zsh, fish/);
  });
});
