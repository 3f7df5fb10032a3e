import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { commandTree } from '../../src/cli/commands.ts';

const text = readFileSync(resolve(import.meta.dirname, '../../docs/commands.md'), 'utf8');

function leaves(command: Command, path: readonly string[] = []): [string, Command][] {
  if (command.commands.length === 0) return [[path.join(' '), command]];
  return command.commands.flatMap((each) => leaves(each, [...path, each.name()]));
}

describe('docs/commands.md', () => {
  const all = new Map(leaves(commandTree()));

  it('has a row for each command, and for no other', () => {
    const rows = [...text.matchAll(/^\| `svc ([^`]+)` \|/gm)].map(([, name]) => name);
    assert.deepEqual(rows.sort(), [...all.keys()].sort());
  });

  it('its examples name commands and options that are there', () => {
    const lines = [...text.matchAll(/^npx --no svc (.*)$/gm)].map(([, line = '']) =>
      line.replace(/ #.*/, ''),
    );
    assert.ok(lines.length > 4);
    for (const line of lines) {
      const [name, command] = [...all].find(([each]) => `${line} `.startsWith(`${each} `)) ?? [];
      assert.ok(name !== undefined && command !== undefined, line);
      const known = command.options.map(({ long }) => long);
      for (const [option] of line.matchAll(/--[a-z][a-z0-9-]*/g)) assert.ok(known.includes(option), line);
    }
  });
});
