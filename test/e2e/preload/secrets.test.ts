import assert from 'node:assert/strict';
import { chmodSync, chownSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { options } from '../../../src/config/schema/schema.ts';
import { canaryOf, wrongFiles, wrongVariables } from '../../config/wrong-secrets.ts';
import { temporaryFolder } from '../../support/folders.ts';
import { plainApp } from '../support/apps.ts';
import { endOf } from '../support/start-app.ts';
import { subject } from '../support/subject.ts';

const main = "console.log('the application runs');";
const secrets = options.filter((option) => option.secret);

describe('what a process says of a configuration', function () {
  this.timeout(180_000);
  let app: string;

  before('npm install', () => {
    app = plainApp();
  });

  /** Standard output and error of the preload, and of `svc check` with and without `--json`. */
  async function said(files: Record<string, string>, env: Record<string, string> = {}): Promise<string> {
    const svc = join(app, 'node_modules/.bin/svc');
    const all = { 'main.mjs': main, ...files };
    const ways = [
      ['--import', 'svc/register', 'main.mjs'],
      [svc, 'check'],
      [svc, 'check', '--json'],
    ];
    const ends = await Promise.all(ways.map((args) => endOf({ app, files: all, args, env })));
    assert.match(ends[0]?.stdout ?? '', /the application runs/);
    return ends.map(({ stdout, stderr }) => `${stdout}\n${stderr}`).join('\n');
  }

  // Each option in its share of the ways, so that each way is tried in a process; all with all: test/config/secrets.test.ts.
  for (const [index, option] of secrets.entries())
    it(`holds nothing of ${option.name}, however it was written`, async () => {
      const canary = canaryOf(option);
      const isMine = (_: unknown, way: number): boolean => way % secrets.length === index;
      for (const [what, files] of wrongFiles(option, canary).filter(isMine))
        if (!what.startsWith('TypeScript'))
          assert.doesNotMatch(
            await said(files, { SVC_BROKER_TOPIC: 'orders' }),
            new RegExp(canary.slice(0, 8), 'i'),
            what,
          );
      for (const [what, env] of wrongVariables(option, canary).filter(isMine)) {
        if (what.includes('\\u0000')) continue;
        assert.doesNotMatch(await said({}, env), new RegExp(canary.slice(0, 8), 'i'), what);
      }
    });

  describe('in a folder of another user', () => {
    let shared: string;

    beforeEach(() => {
      shared = temporaryFolder('shared');
      chmodSync(shared, 0o1777);
      mkdirSync(join(shared, 'app/node_modules'), { recursive: true });
      symlinkSync(join(app, 'node_modules/svc'), join(shared, 'app/node_modules/svc'));
      writeFileSync(join(shared, 'app/main.mjs'), main);
      writeFileSync(
        join(shared, 'svc.config.mjs'),
        "console.log('CODE OF ANOTHER USER'); export default { svc: { broker: { topic: 'stolen' } } };",
      );
      if (process.geteuid?.() === 0) chownSync(join(shared, 'svc.config.mjs'), 54_321, 54_321);
    });

    async function run(args: readonly string[], cwd: string): Promise<string> {
      const { spawnSync } = await import('node:child_process');
      const { node } = await subject();
      const env = { PATH: process.env.PATH, PII_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64') };
      const { stdout, stderr } = spawnSync(node, args, {
        cwd,
        env,
        encoding: 'utf8',
        input: '',
        timeout: 20_000,
      });
      return stdout + stderr;
    }

    it('no command and no preload runs what another user has put above the application', async () => {
      const svc = join(app, 'node_modules/.bin/svc');
      const ways = [
        ['--import', 'svc/register', 'main.mjs'],
        [svc, 'check'],
        [svc, 'decrypt'],
        [svc, 'backup', 'list'],
        [svc, 'dlq', 'list'],
      ];
      for (const args of ways)
        assert.doesNotMatch(await run(args, join(shared, 'app')), /CODE OF ANOTHER USER/, args.join(' '));
    });

    it('nor beside it: each says so, and decrypt does not go on without it', async () => {
      if (process.geteuid?.() !== 0) chmodSync(join(shared, 'svc.config.mjs'), 0o666);
      const svc = join(app, 'node_modules/.bin/svc');
      for (const args of [
        [svc, 'check'],
        [svc, 'decrypt'],
        [svc, 'backup', 'list'],
        [svc, 'dlq', 'list'],
      ]) {
        const text = await run(args, shared);
        assert.doesNotMatch(text, /CODE OF ANOTHER USER/, args.join(' '));
        assert.match(
          text,
          /svc\.config\.mjs: is code that (another user owns|others may write)/,
          args.join(' '),
        );
      }
    });
  });

  it('names the file that was taken', async () => {
    const files = { 'main.mjs': main, 'svc.config.json': '{ "svc.broker.topic": "orders" }' };
    const { stderr } = await endOf({ app, files });
    assert.match(stderr, /^svc: configuration \/.*\/svc\.config\.json$/m);
    const check = await endOf({ app, files, args: [join(app, 'node_modules/.bin/svc'), 'check'] });
    assert.match(check.stdout, /^configuration \/.*\/svc\.config\.json$/m);
  });
});
