import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Dependencies, pack } from '../../support/packed.ts';
import { linesUnderTest, type OtelLine } from '../support/subject.ts';
import { packageManagers, type Resolved } from './package-managers.ts';

/** Applications with all that svc has as an optional peer of OpenTelemetry, and an exporter for Prometheus. */
const applications: Readonly<Record<OtelLine, Dependencies>> = {
  3: {
    '@opentelemetry/api': '1.10.0',
    '@opentelemetry/sdk-node': '0.301.0',
    '@opentelemetry/instrumentation': '0.301.1',
    '@opentelemetry/exporter-prometheus': '0.301.0',
  },
  2: {
    '@opentelemetry/api': '1.9.1',
    '@opentelemetry/sdk-node': '0.223.0',
    '@opentelemetry/instrumentation': '0.223.0',
    '@opentelemetry/exporter-prometheus': '0.223.0',
  },
};
const lines = await linesUnderTest();

for (const [name, resolve] of Object.entries(packageManagers)) {
  describe(`svc in a tree of ${name}`, function () {
    this.timeout(300_000);

    async function resolved(dependencies: Dependencies): Promise<Resolved> {
      const folder = mkdtempSync(join(tmpdir(), `svc-${name}-`));
      try {
        const manifest = {
          name: 'app',
          private: true,
          dependencies: { ...dependencies, svc: `file:${pack()}` },
        };
        writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest));
        return await resolve(folder);
      } finally {
        rmSync(folder, { recursive: true, force: true });
      }
    }

    for (const line of lines) {
      it(`OpenTelemetry ${line}.x: one API, no warning`, async () => {
        const dependencies = applications[line];
        assert.deepEqual(await resolved(dependencies), {
          complaints: '',
          apis: [dependencies['@opentelemetry/api']],
        });
      });
    }

    it('an API that is too old is complained of, so that this test would see it', async () => {
      const { complaints } = await resolved({ '@opentelemetry/api': '1.8.0' });
      assert.match(complaints, /@opentelemetry\/api/);
    });
  });
}
