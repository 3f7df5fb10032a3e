import assert from 'node:assert/strict';
import { plainApp } from '../support/apps.ts';
import { type AppEnd, type AppOptions, endOf } from '../support/start-app.ts';
import { isAtLeast, subject } from '../support/subject.ts';

const main = `
  async function order(id) { return { id, open: true }; }
  await order(7);`;
const target = { module: './main.mjs', function: 'order', eventType: 'ORDERED' };

describe('where the configuration comes from', function () {
  this.timeout(180_000);
  let app: string;

  before('npm install', () => {
    app = plainApp();
  });

  const run = (files: AppOptions['files'], env: Record<string, string> = {}): Promise<AppEnd> =>
    endOf({ app, env, files: { 'main.mjs': main, ...files } });
  const payloads = ({ topics }: AppEnd): unknown[] => (topics.events ?? []).map(({ value }) => value.payload);

  it('environment variables alone', async () => {
    const end = await run({}, { SVC_BROKER_TOPIC: 'events', SVC_TARGETS: JSON.stringify([target]) });
    assert.deepEqual(payloads(end), [{ id: 7, open: true }], end.stderr);
  });

  const code = `{
    svc: {
      broker: { topic: 'events' },
      targets: [{ ...${JSON.stringify(target)}, payload: ({ args, result }) => ({ asked: args[0], got: result.id }) }],
    },
  }`;

  it('a module, in which expressions are functions', async () => {
    const end = await run({ 'svc.config.mjs': `export default ${code};` });
    assert.deepEqual(payloads(end), [{ asked: 7, got: 7 }], end.stderr);
  });

  it('TypeScript where Node runs it, a clear line where it does not', async () => {
    const { version } = await subject();
    const end = await run({ 'svc.config.ts': `const config: object = ${code};\nexport default config;` });
    assert.equal(end.code, 0, end.stderr);
    if (isAtLeast(version, '22.18.0')) {
      assert.deepEqual(payloads(end), [{ asked: 7, got: 7 }], end.stderr);
    } else {
      assert.match(
        end.stderr,
        /^svc: error: svc\.config\.ts: cannot be loaded: this Node .* does not run TypeScript\./m,
      );
    }
  });
});
