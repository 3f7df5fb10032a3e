import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { load } from 'js-yaml';
import { runCommand } from '../../scripts/services/commands.ts';
import { ensurePrometheus } from '../../scripts/services/prometheus-programs.ts';
import { requiring } from '../support/requires.ts';
import { opsFolder } from './support/rule-files.ts';

interface Service {
  readonly image: string;
  readonly ports?: readonly string[];
  readonly volumes?: readonly string[];
  readonly network_mode?: string;
}

const { services } = load(readFileSync(join(opsFolder, 'compose.yaml'), 'utf8')) as {
  readonly services: Readonly<Record<string, Service>>;
};

describe('ops/compose.yaml', () => {
  it('starts Kafka, PostgreSQL, S3, Prometheus and Grafana, each of a fixed version', () => {
    assert.deepEqual(Object.keys(services), ['kafka', 'postgres', 's3', 'prometheus', 'grafana']);
    for (const { image } of Object.values(services)) assert.match(image, /:v?\d/);
  });

  it('is reached from this host alone', () => {
    for (const { ports = [] } of Object.values(services))
      for (const port of ports) assert.match(port, /^127\.0\.0\.1:/);
    const text = readFileSync(join(opsFolder, 'compose.yaml'), 'utf8');
    assert.equal(text.match(/network_mode: host/g)?.length, 2);
    assert.match(text, /--web\.listen-address=127\.0\.0\.1:/);
    assert.match(text, /GF_SERVER_HTTP_ADDR: 127\.0\.0\.1\n/);
  });

  it('mounts files that are there', () => {
    for (const { volumes = [] } of Object.values(services))
      for (const volume of volumes)
        assert.ok(existsSync(join(opsFolder, volume.split(':')[0] ?? '')), volume);
  });
});

requiring('prometheus', 'ops/prometheus.yaml', function () {
  this.timeout(60_000);

  it('is a configuration of Prometheus, with the rules beside it', async () => {
    const programs = await ensurePrometheus();
    const args = ['check', 'config', join(opsFolder, 'prometheus.yaml')];
    const { code, stdout, stderr } = await runCommand(programs?.promtool ?? '', args, { timeoutMs: 50_000 });
    assert.equal(code, 0, `${stdout}${stderr}`);
    assert.match(String(stdout), /recording-rules\.yaml[\s\S]*alerts\.yaml/);
  });
});
