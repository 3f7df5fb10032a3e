import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '../..');

describe('docs/internals/security.md', () => {
  const page = readFileSync(join(root, 'docs/internals/security.md'), 'utf8');
  const [, list = ''] = page.split('## Attacks that are tested\n');
  const rows = (list.split(/^## /m)[0] as string)
    .split('\n')
    .filter((line) => /^\| (?!Attacker|-)/.test(line));

  it('lists attacks', () => assert.ok(rows.length > 2));
  for (const row of rows)
    it(`has a test for: ${row.split('|')[2]?.trim()}`, () => {
      const tests = [...(row.split('|')[4] ?? '').matchAll(/`([^`]+)`/g)].map(([, file]) => file as string);
      assert.ok(tests.length > 0);
      for (const file of tests) assert.ok(existsSync(join(root, file)), file);
    });
});
