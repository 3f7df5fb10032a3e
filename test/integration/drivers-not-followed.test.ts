import assert from 'node:assert/strict';
import { symlinkSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { runApp, writeFiles } from '../e2e/support/run-app.ts';
import { temporaryFolder } from '../support/folders.ts';

const root = resolve(import.meta.dirname, '../..');
/** A second of it is what the start report waits for. */
const lives = 'setTimeout(() => {}, 1_600);';

describe('drivers that are not followed', function () {
  this.timeout(60_000);
  let folder: string;

  before(() => {
    folder = temporaryFolder('drivers');
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'), 'junction');
    const target = {
      ...{ module: './orders.mjs', function: 'place', eventType: 'ORDERED' },
      outbox: { aggregateType: 'Order', aggregateId: '#p0' },
    };
    const svc = {
      broker: { client: 'memory', topic: 'orders' },
      outbox: {
        enabled: true,
        'publisher-enabled': false,
        datasource: { url: 'postgres://127.0.0.1:1/shop' },
      },
      targets: [target],
    };
    const management = { endpoints: { web: { exposure: { include: [] } } } };
    writeFiles(folder, {
      'package.json':
        '{ "name": "shop", "dependencies": { "postgres": "^3.0.0", "mariadb": "^3.0.0", "pg": "*" } }',
      'svc.config.json': JSON.stringify({ svc, management }),
      'orders.mjs': 'export async function place(id) { return { id }; }',
      'none.mjs': `import './orders.mjs'; ${lives}`,
      'foreign.mjs': `import 'postgres'; import './orders.mjs'; ${lives}`,
      'followed.mjs': `import 'pg'; import './orders.mjs'; ${lives}`,
    });
  });

  async function linesOf(app: string): Promise<string[]> {
    const { code, stderr } = await runApp({
      ...{ node: process.execPath, cwd: folder, args: ['--import', join(root, 'dist/register.mjs'), app] },
    });
    assert.equal(code, 0, stderr);
    return stderr.split('\n').filter((line) => /^svc: outbox: .*follow/.test(line));
  }

  it('are in the report of the start, and so is that there is no other', async () => {
    const [none, foreign, followed] = await Promise.all(
      ['none.mjs', 'foreign.mjs', 'followed.mjs'].map(linesOf),
    );
    assert.equal(none?.length, 1);
    assert.match(
      none?.[0] ?? '',
      /not loaded a known one \(pg\)\. .*outbox\.watch .*outbox\.withTransaction/,
    );
    assert.equal(foreign?.length, 1);
    assert.match(foreign?.[0] ?? '', /the driver postgres is in use, .*outbox\.withTransaction/);
    assert.deepEqual(followed, []);
  });

  it('are said by svc check, where package.json names them for this database', async () => {
    const { code, stdout } = await runApp({
      ...{ node: process.execPath, cwd: folder, args: [join(root, 'bin/svc.cjs'), 'check'] },
    });
    assert.equal(code, 0, stdout);
    const warnings = stdout.split('\n').filter((line) => line.startsWith('warning: svc.outbox'));
    assert.equal(warnings.length, 1, stdout);
    assert.match(warnings[0] ?? '', /package\.json names postgres; .*outbox\.withTransaction/);
  });
});
