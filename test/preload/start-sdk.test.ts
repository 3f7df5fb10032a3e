import assert from 'node:assert/strict';
import { startSdk } from '../../src/preload/sdk/node-sdk.ts';
import { useLogger } from '../support/log.ts';

describe('startSdk', () => {
  afterEach(() => {
    Reflect.deleteProperty(process.env, 'OTEL_CONFIG_FILE');
  });

  for (const [file, warnings] of [
    ['otel.yaml', 1],
    [' ', 0],
  ] as const) {
    it(`a package that reads no file, with OTEL_CONFIG_FILE="${file}": starts from variables, ${warnings} warnings`, () => {
      process.env.OTEL_CONFIG_FILE = file;
      const lines: string[] = [];
      const logger = { debug() {}, info() {}, error() {}, warn: (line: string) => lines.push(line) };
      const starts: unknown[] = [];
      class NodeSDK {
        readonly options: object;
        constructor(options: object) {
          this.options = options;
        }
        start(): void {
          starts.push(this.options);
        }
        async shutdown(): Promise<void> {}
      }
      useLogger(logger);
      startSdk({ NodeSDK }, { serviceName: 'orders', instrumentations: [] });
      assert.deepEqual(starts, [{ serviceName: 'orders', instrumentations: [] }]);
      assert.equal(
        lines.filter((line) => line.startsWith('OTEL_CONFIG_FILE has no effect')).length,
        warnings,
      );
    });
  }
});
