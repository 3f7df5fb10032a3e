import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';

// Each in a process of its own: what was loaded or registered here already would hide the answer.
function run(script: string): string {
  const module = new URL('../../src/observe/otel-api.ts', import.meta.url).href;
  const code = `import { otelApi, setProviders, sayWhereSdkIsForeign } from ${JSON.stringify(module)};\n${script}`;
  return execFileSync(process.execPath, ['--input-type=module', '--eval', code], {
    cwd: import.meta.dirname,
    encoding: 'utf8',
  });
}

describe('otel-api', () => {
  it('is not there, and not loaded, until somebody registers something', () => {
    const output = run(`
      import { createRequire } from 'node:module';
      import { join } from 'node:path';
      const require = createRequire(join(process.cwd(), 'x.js'));
      const loaded = () => Object.keys(require.cache).some((file) => file.includes('opentelemetry'));
      const before = [otelApi(), loaded()];
      const api = await import('@opentelemetry/api');
      const still = otelApi();
      api.metrics.setGlobalMeterProvider({ getMeter: () => 'the meter' });
      console.log(before, still, otelApi().metrics.getMeterProvider().getMeter());`);
    assert.equal(output, '[ undefined, false ] undefined the meter\n');
  });

  it('says where the SDK is on an older API than svc, once', () => {
    const output = run(`
      const key = Symbol.for('opentelemetry.js.api.1');
      const said = [];
      const look = (version) => { globalThis[key] = { version }; sayWhereSdkIsForeign((text) => said.push(text)); };
      for (const version of ['1.9.1', '1.9.1', '1.99.0']) look(version);
      sayWhereSdkIsForeign((text) => said.push(text));
      console.log(said.length, /uses @opentelemetry.api 1.9.1, but svc uses 1[.]\\d+[.]\\d+ .*npm ls @opentelemetry.api$/.test(said[0]));
      const foreign = (version) => { const before = said.length; look(version); return said.length > before; };
      console.log([undefined, '1.99.0', '2.0.0', '1.0.0'].map(foreign));`);
    assert.equal(output, '1 true\n[ false, false, true, true ]\n');
  });

  it('is loaded for an application that hands over its providers', () => {
    assert.equal(
      run(`
      const before = otelApi();
      setProviders({});
      console.log(before, typeof otelApi().trace.getTracer, otelApi() === otelApi());`),
      'undefined function true\n',
    );
  });
});
