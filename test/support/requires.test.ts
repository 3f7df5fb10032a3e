import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from './folders.ts';

describe('requiring', () => {
  const folder = temporaryFolder('requires');

  // A PATH without Java and without Docker, and an empty cache.
  function runSuite(env: NodeJS.ProcessEnv) {
    const mocha = join(import.meta.dirname, '../../node_modules/mocha/bin/mocha.js');
    const args = [mocha, '--reporter', 'json', join(import.meta.dirname, 'fixtures/needs-kafka.ts')];
    const bare = { PATH: folder, SVC_CACHE: folder, HOME: folder, ...env };
    const { status, stdout, stderr } = spawnSync(process.execPath, args, { env: bare, encoding: 'utf8' });
    return { status, stderr, stats: JSON.parse(stdout).stats as Mocha.Stats };
  }

  it('shows a suite as pending and records why, where its server cannot be had', () => {
    const skips = join(folder, 'skips.ndjson');
    const { status, stats } = runSuite({ SVC_TEST_SKIPS: skips });
    assert.deepEqual([status, stats.passes, stats.pending, stats.failures], [0, 0, 1, 0]);
    assert.deepEqual(JSON.parse(readFileSync(skips, 'utf8')), {
      suite: 'a suite that needs Kafka',
      reason: 'no Kafka: there is no Java; there is no Docker',
      remedy: 'install a JDK 17+ and Maven, or start Docker, or set KAFKA_BROKERS=host:port',
    });
  });

  it('says so on standard error when nobody collects the reasons', () => {
    assert.match(runSuite({}).stderr, /^not run: a suite that needs Kafka: no Kafka: there is no Java/m);
  });

  it('fails the suite where CI is set', () => {
    const { status, stats } = runSuite({ CI: 'true' });
    assert.deepEqual([status, stats.passes, stats.failures], [1, 0, 1]);
  });
});
