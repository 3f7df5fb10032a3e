import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from '../../support/folders.ts';
import { type Dependencies, pack } from '../../support/packed.ts';
import { linesUnderTest, type OtelLine } from '../support/subject.ts';
import { packageManagers, type Resolved } from './package-managers.ts';

/** Applications with all that svc has as an optional peer of OpenTelemetry, what that needs, and an exporter for Prometheus. */
const applications: Readonly<Record<OtelLine, Dependencies>> = {
  3: {
    '@opentelemetry/api': '1.10.0',
    '@opentelemetry/sdk-node': '0.301.0',
    '@opentelemetry/instrumentation': '0.301.1',
    '@opentelemetry/exporter-prometheus': '0.301.0',
    '@opentelemetry/auto-instrumentations-node': '0.82.0',
    '@opentelemetry/core': '3.1.0',
  },
  2: {
    '@opentelemetry/api': '1.9.1',
    '@opentelemetry/sdk-node': '0.223.0',
    '@opentelemetry/instrumentation': '0.223.0',
    '@opentelemetry/exporter-prometheus': '0.223.0',
    '@opentelemetry/auto-instrumentations-node': '0.81.0',
    '@opentelemetry/core': '2.12.0',
  },
};
const lines = await linesUnderTest();

for (const [name, resolve] of Object.entries(packageManagers)) {
  describe(`svc in a tree of ${name}`, function () {
    this.timeout(300_000);

    async function resolveWith(dependencies: Dependencies): Promise<Resolved> {
      const folder = temporaryFolder(`${name}`);
      const manifest = {
        name: 'app',
        private: true,
        dependencies: { ...dependencies, svc: `file:${pack()}` },
      };
      writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest));
      return await resolve(folder);
    }

    let trees: readonly Resolved[];
    // Side by side: most of it is waiting for the registry.
    before(async () => {
      const all = [...lines.map((line) => applications[line]), { '@opentelemetry/api': '1.8.0' }];
      trees = await Promise.all(all.map(resolveWith));
    });

    for (const [index, line] of lines.entries()) {
      it(`OpenTelemetry ${line}.x: one API, no warning`, () => {
        assert.deepEqual(trees[index], { complaints: '', apis: [applications[line]['@opentelemetry/api']] });
      });
    }

    it('an API that is too old is complained of, so that this test would see it', () => {
      assert.match(trees.at(-1)?.complaints ?? '', /@opentelemetry\/api/);
    });
  });
}
