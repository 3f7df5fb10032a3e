import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import {
  findBaseClass,
  StandIn,
  SvcInstrumentation,
} from '../../../src/preload/instrumentation/svc-instrumentation.ts';
import { temporaryFolder } from '../../support/folders.ts';

describe('the base class of SvcInstrumentation', () => {
  const folder = temporaryFolder('base-class');

  /** What an application has that installed this version; `undefined`: none. */
  function found(version: string | undefined, name = '@opentelemetry/instrumentation') {
    const app = join(folder, `${version}`);
    if (version !== undefined) {
      const package_ = join(app, 'node_modules/@opentelemetry/instrumentation');
      mkdirSync(package_, { recursive: true });
      writeFileSync(join(package_, 'package.json'), JSON.stringify({ name, version, main: 'index.js' }));
      writeFileSync(join(package_, 'index.js'), 'exports.InstrumentationBase = class {};');
    }
    return findBaseClass(createRequire(join(app, 'main.js')));
  }

  it('is that of the application', () => {
    const one = new SvcInstrumentation({ enabled: false });
    assert.ok(one instanceof SvcInstrumentation);
    // The CommonJS half of it: only `require` can do without a package that is not there.
    const { InstrumentationBase } = createRequire(import.meta.url)('@opentelemetry/instrumentation');
    assert.ok(one instanceof InstrumentationBase);
    assert.ok(!(one instanceof class extends SvcInstrumentation {}));
    assert.equal(one.instrumentationName, 'svc');
    assert.match(one.instrumentationVersion, /^\d+\.\d+\.\d+$/);
  });

  for (const version of ['0.200.0', '0.223.0', '0.301.1', '0.399.0', '1.0.0']) {
    it(`of ${version} is taken`, () => {
      const { BaseClass, problem } = found(version);
      assert.equal(problem, undefined);
      assert.notEqual(BaseClass, StandIn);
    });
  }

  for (const version of ['0.57.2', '0.199.9']) {
    it(`of ${version} is too old, and says what to do`, () => {
      const { BaseClass, problem } = found(version);
      assert.equal(BaseClass, StandIn);
      assert.equal(problem?.code, 'SVC_PRELOAD_INSTRUMENTATION');
      assert.match(
        problem.message,
        new RegExp(
          `because @opentelemetry/instrumentation ${version} is too old: npm install .*, or start with`,
        ),
      );
    });
  }

  it('that is not there is named', () => {
    const { BaseClass, problem } = found(undefined);
    assert.equal(BaseClass, StandIn);
    assert.match(
      problem?.message ?? '',
      /because @opentelemetry\/instrumentation cannot be loaded: npm install/,
    );
  });
});
