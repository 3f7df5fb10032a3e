import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { installPacked } from '../../support/packed.ts';
import { freshFolder, hostEnvironment } from '../support/run-app.ts';

type Exports = Readonly<Record<string, unknown>>;
type AnyClass = new (...args: unknown[]) => object;

/** How an instance of each exported class is made: one without a row here fails. */
const instances: Readonly<Record<string, (made: AnyClass) => object>> = {
  RefusedEvent: (RefusedEvent) => new RefusedEvent('why'),
  SvcError: (SvcError) => new SvcError('SVC_PUBLISH_LOST', 'lost'),
  SvcInstrumentation: (SvcInstrumentation) => new SvcInstrumentation({ enabled: false }),
};

const isClass = (value: unknown): value is AnyClass =>
  typeof value === 'function' && /^class\b/.test(Function.prototype.toString.call(value));

describe('both halves of the package, and two copies of it', function () {
  this.timeout(180_000);
  let application: string;
  let folder: string;
  let entries: Record<string, { import: { default: string }; require: { default: string } }>;

  before(() => {
    application = installPacked('copies');
    folder = freshFolder(application, 'copies');
    const second = join(folder, 'second', 'node_modules', 'svc');
    cpSync(join(application, 'node_modules', 'svc'), second, { recursive: true });
    entries = JSON.parse(readFileSync(join(second, 'package.json'), 'utf8')).exports;
  });

  it('share each class and symbol that any entry exports', async () => {
    const seen: string[] = [];
    for (const [subpath, entry] of Object.entries(entries)) {
      // `register` exports nothing, and starts svc.
      if (entry.import === undefined || subpath === './register') continue;
      const all: Exports[] = [];
      for (const at of [application, join(folder, 'second')]) {
        const file = (name: string): string => join(at, 'node_modules', 'svc', name);
        all.push(await import(pathToFileURL(file(entry.import.default)).href));
        all.push(createRequire(import.meta.url)(file(entry.require.default)) as Exports);
      }
      for (const name of Object.keys(all[0] as Exports)) {
        const values = all.map((one) => one[name]);
        if (typeof values[0] === 'symbol') assert.equal(new Set(values).size, 1, name);
        if (!isClass(values[0])) continue;
        seen.push(name);
        const make =
          instances[name] ?? assert.fail(`${subpath} exports the class ${name}: say how one is made`);
        for (const one of values as AnyClass[])
          for (const other of values as AnyClass[]) assert.ok(make(one) instanceof other, name);
      }
    }
    assert.deepEqual(seen.sort(), ['RefusedEvent', 'SvcError', 'SvcInstrumentation']);
  });

  it('an error of the running svc is an SvcError in ES modules, in CommonJS and in the other copy', () => {
    const main = `
      import { createRequire } from 'node:module';
      import { publish, SvcError } from 'svc';
      const others = [createRequire(import.meta.url)('svc').SvcError, (await import('./second/node_modules/svc/dist/index.mjs')).SvcError];
      const error = await publish({ odd: new Error('x') }).catch((reason) => reason);
      console.log(error.code, error instanceof SvcError, ...others.map((other) => error instanceof other));
    `;
    writeFileSync(join(folder, 'main.mjs'), main);
    const out = execFileSync(process.execPath, ['--import', 'svc/register', 'main.mjs'], {
      cwd: folder,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
      env: {
        ...hostEnvironment(),
        ...{ SVC_BROKER_CLIENT: 'memory', SVC_BROKER_TOPIC: 'orders', MANAGEMENT_SERVER_PORT: '0' },
      },
    });
    assert.equal(out, 'SVC_PROTECT_UNSUPPORTED_TYPE true true true\n');
  });
});
