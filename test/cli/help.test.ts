import assert from 'node:assert/strict';
import type { Command } from 'commander';
import { commandTree } from '../../src/cli/commands.ts';
import { runSvc } from '../support/run-svc.ts';

const all = (command: Command): Command[] => [command, ...command.commands.flatMap(all)];

describe('the help of svc', () => {
  it('is one screen of a terminal, with examples', async () => {
    const { code, stdout } = await runSvc(['--help']);
    const lines = stdout.trimEnd().split('\n');
    assert.equal(code, 0);
    assert.match(stdout, /^Examples:$/m);
    assert.ok(lines.length <= 24, `${lines.length} lines`);
    assert.deepEqual(
      lines.filter((line) => line.length > 80),
      [],
    );
  });

  it('each command has its own, that says what it is for, within 80 columns', async () => {
    const names = all(commandTree()).map((command) => pathOf(command));
    for (const path of names) {
      const { code, stdout, stderr } = await runSvc([...path, '--help']);
      assert.deepEqual([code, stderr], [0, ''], path.join(' '));
      const [usage = '', , description = ''] = stdout.split('\n');
      assert.ok(usage.startsWith(`Usage: ${['npx --no svc', ...path].join(' ')}`), usage);
      assert.match(description, /\w{4}/, path.join(' '));
      assert.match(stdout, /--help/);
      const long = stdout.split('\n').filter((line) => line.length > 80);
      assert.deepEqual(long, [], path.join(' '));
    }
    assert.ok(names.length > 15, `${names.length} commands`);
  }).timeout(60_000);

  it('a group without a command says which there are', async () => {
    const { code, stdout, stderr } = await runSvc(['dlq']);
    assert.deepEqual([code, stdout], [2, '']);
    assert.match(stderr, /\nsvc: dlq takes list, recover; see npx --no svc dlq --help\n$/);
  });

  it('an option whose value is missing, and a word too many, are wrong uses', async () => {
    for (const [args, says] of [
      [
        ['dlq', 'list', '--type'],
        "svc: option '--type <event type>' argument missing; see npx --no svc dlq list",
      ],
      [['decrypt', 'a', 'b'], "svc: too many arguments for 'decrypt'"],
      [['relay', '--json'], "svc: unknown option '--json'"],
    ] as const) {
      const { code, stdout, stderr } = await runSvc(args);
      assert.deepEqual([code, stdout, stderr.startsWith(says)], [2, '', true], stderr);
    }
  });
});

function pathOf(command: Command): string[] {
  return command.parent === null ? [] : [...pathOf(command.parent), command.name()];
}
