import assert from 'node:assert/strict';
import { runApp, writeApp } from './run-app.ts';

const app = {
  'package.json': '{"type":"module"}',
  'orders.js': 'export async function create(order) { return order; }\n',
  'main.mjs': "import { create } from './orders.js';\nconsole.log('RETURNED', await create(1));\n",
};
const id = './orders.js#create';

describe('capture: where the parser cannot be loaded', function () {
  this.timeout(60_000);

  for (const [flags, named] of [
    [['--no-addons'], /--no-addons disables native addons.*svc manifest/],
    [['--permission', '--allow-fs-read=*', '--allow-fs-write=*'], /add --allow-addons.*svc manifest/],
  ] as const)
    it(`with ${flags[0]} the report names the flag, and the application runs`, () => {
      const { status, stdout, reports, stderr } = runApp(writeApp(app), [id], { before: flags });
      assert.equal(status, 0, stderr);
      assert.match(stdout, /RETURNED 1/);
      assert.equal(reports[id]?.state, 'failed');
      assert.match(reports[id]?.reason ?? '', named);
    });
});
