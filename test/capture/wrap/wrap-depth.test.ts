import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, it } from 'mocha';

const program = fileURLToPath(new URL('./depth-program.ts', import.meta.url));

function reached(how: string): { readonly depth: number; readonly args: number } {
  const { stdout, stderr, status } = spawnSync(process.execPath, ['--no-warnings', program, how], {
    encoding: 'utf8',
    timeout: 20_000,
  });
  assert.equal(status, 0, stderr);
  return JSON.parse(stdout) as { depth: number; args: number };
}

describe('a captured function that calls itself', () => {
  it('shares the stack with one frame for each call, whatever its target says', () => {
    const bare = reached('bare');
    for (const how of ['captured', 'off', 'outbox']) {
      const { depth, args } = reached(how);
      // Its wrapper's frame is 1.6 times the smallest there is, and each frame on the way holds the arguments once.
      assert.ok(depth > 0.36 * bare.depth, `${how}: ${depth} of ${bare.depth} calls`);
      assert.ok(args > 0.48 * bare.args, `${how}: ${args} of ${bare.args} arguments`);
    }
  });
});
