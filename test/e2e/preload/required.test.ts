import assert from 'node:assert/strict';
import { join } from 'node:path';
import { plainApp } from '../support/apps.ts';
import { findNode20 } from '../support/old-node.ts';
import { type AppEnd, type AppOptions, endOf } from '../support/start-app.ts';
import { configOf } from '../support/topic-config.ts';

const main = `
  import './order.js';
  function order(id) { return { id }; }
  order(1);
  console.log('the application runs');`;
const target = { module: './main.mjs', function: 'order' };
const required = { required: true };

describe('svc.required', function () {
  this.timeout(180_000);
  let app: string;

  before('npm install', () => {
    app = plainApp();
  });

  const run = (config: object, rest: Partial<AppOptions> = {}): Promise<AppEnd> =>
    endOf({
      app,
      files: {
        'main.mjs': main,
        'order.js': '',
        'src/order.ts': 'export function order() {}',
        'svc.config.json': config,
      },
      ...rest,
    });

  const refusals: readonly [what: string, config: object, env: Record<string, string>, why: RegExp][] = [
    [
      'a wrong configuration',
      { svc: required },
      {},
      /svc\.required is true, so the process does not start: the configuration is wrong$/m,
    ],
    [
      'a target that cannot be patched',
      configOf([target, { ...target, function: 'ordre' }], required),
      {},
      /target main\.mjs#ordre cannot be patched: .*did you mean order[\s\S]*process does not start: 1 target cannot be patched$/m,
    ],
    [
      'a target in TypeScript, where what it was compiled to is loaded',
      configOf([target, { module: './src/order.ts', function: 'order' }], required),
      {},
      /target src\/order\.ts#order cannot be patched: \.\/order\.js is loaded in its place: write source maps in the build .*, or write module: \.\/order\.js\n.*process does not start: 1 target cannot be patched$/m,
    ],
    [
      'targets that are refused',
      configOf(
        [
          { ...target, severity: 'LOUD' },
          { ...target, function: 'x' },
        ],
        required,
      ),
      {},
      /process does not start: 2 targets cannot be patched$/m,
    ],
    [
      'SVC_REQUIRED, and a file that cannot be read',
      configOf([target]),
      { SVC_REQUIRED: 'true', SVC_CONFIG: 'gone.yaml' },
      /gone\.yaml: does not exist[\s\S]*the configuration is wrong$/m,
    ],
    [
      'no word of the log',
      { svc: { ...required, log: { level: 'off' } } },
      {},
      /^svc: error: svc\.required is true, so the process does not start: the configuration is wrong\n$/,
    ],
  ];
  for (const [what, config, env, why] of refusals)
    it(`${what}: the process does not start`, async () => {
      const end = await run(config, { env });
      assert.deepEqual([end.code, end.stdout], [78, ''], end.stderr);
      assert.match(end.stderr, why);
    });

  it('svc fails while it starts: the process does not start', async () => {
    const breaks = `require('node:os').hostname = () => { throw new Error('no name'); };`;
    const config = configOf([target], required);
    const files = { 'main.mjs': main, 'svc.config.json': config, 'breaks.cjs': breaks };
    const end = await run({}, { files, env: { NODE_OPTIONS: '--require ./breaks.cjs' } });
    assert.deepEqual([end.code, end.stdout], [78, ''], end.stderr);
    assert.match(end.stderr, /svc: svc\.required is true, so the process does not start: no name$/m);
  });

  it('where svc works, and where it is switched off, the application runs', async () => {
    const end = await run(configOf([target], required));
    assert.deepEqual([end.code, Object.values(end.topics).flat().length], [0, 1], end.stderr);
    const off = await run({ svc: { required: true } }, { env: { SVC_ENABLED: 'false' } });
    assert.deepEqual([off.code, off.stderr], [0, '']);
  });

  describe('Node 20', () => {
    let node: string;
    before('find Node 20', async () => {
      node = await findNode20();
    });

    for (const [what, config, env] of [
      ['in the environment', {}, { SVC_REQUIRED: 'true' }],
      ['in the file', { svc: required }, {}],
    ] as const)
      it(`required ${what}: one line, and the process does not start`, async () => {
        const end = await run(config, { node, env });
        assert.deepEqual([end.code, end.stdout], [78, '']);
        assert.match(
          end.stderr,
          /^svc: needs Node 22\.15\.0 or later, found 20\.\d+\.\d+\. The process does not start, because svc\.required is true\n$/,
        );
      });

    it('svc check: exit 1, and says that nothing is captured there', async () => {
      const check = join(app, 'node_modules/.bin/svc');
      const end = await run(configOf([target]), { node, args: [check, 'check'] });
      assert.equal(end.code, 1, end.stdout + end.stderr);
      assert.match(
        end.stdout,
        /^error: svc: needs Node 22\.15\.0 or later, found 20\.\d+\.\d+: nothing is captured here\. Run the application with a newer Node\.$/m,
      );
      const json = await run(configOf([target]), { node, args: [check, 'check', '--json'] });
      const { ok, problems } = JSON.parse(json.stdout) as { ok: boolean; problems: string[] };
      assert.deepEqual([json.code, ok, problems.length], [1, false, 1]);
    });
  });

  it('svc check --config names what was named, not SVC_CONFIG', async () => {
    const check = join(app, 'node_modules/.bin/svc');
    const end = await run({}, { args: [check, 'check', '--config', 'nope.yaml'] });
    assert.equal(end.code, 1);
    assert.match(
      end.stdout,
      /^error: nope\.yaml: does not exist \(named by --config\)\. Correct --config, or create the file\.$/m,
    );
    assert.doesNotMatch(end.stdout + end.stderr, /SVC_CONFIG/);
  });

  it('mistakes of targets are said beside those of the rest', async () => {
    const wrong = configOf([{ ...target, severity: 'LOUD' }], { broker: { topic: 'a b' } });
    const { stdout, stderr } = await run(wrong);
    assert.match(stdout, /the application runs/);
    assert.match(stderr, /^svc: error: svc\.broker\.topic: /m);
    assert.match(stderr, /^svc: error: target main\.mjs#order: svc\.targets\[0\]\.severity: /m);
    assert.match(stderr, /^svc: error: not started because of the configuration/m);
  });
});
