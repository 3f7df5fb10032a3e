import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { load } from 'js-yaml';
import { runCommand } from '../../scripts/services/commands.ts';
import { ensurePrometheus } from '../../scripts/services/prometheus-programs.ts';
import { observedInstruments, publishDuration } from '../../src/observe/metrics.ts';
import { requiring } from '../support/requires.ts';
import { alerts, opsFolder, recordings, ruleFileNames, seriesIn } from './support/rule-files.ts';

const testFolder = join(import.meta.dirname, 'rules');
const testFiles = readdirSync(testFolder).map((name) => join(testFolder, name));

interface RuleTests {
  readonly tests: readonly {
    readonly promql_expr_test: readonly { readonly expr: string; readonly exp_samples: readonly unknown[] }[];
  }[];
}

describe('rules for Prometheus', () => {
  const exported = new Set([
    ...observedInstruments.flatMap(({ prometheusName, prometheusAlias }) => [
      prometheusName,
      prometheusAlias,
    ]),
    ...['bucket', 'sum', 'count'].map((part) => `${publishDuration.prometheusName}_${part}`),
    ...recordings.map(({ record }) => record),
  ]);

  it('read series only that svc exports, or that are recorded from them', () => {
    for (const { record, alert, expr } of [...recordings, ...alerts]) {
      const read = seriesIn(expr);
      assert.notEqual(read.length, 0, record ?? alert);
      assert.deepEqual(
        read.filter((series) => !exported.has(series)),
        [],
        record ?? alert,
      );
    }
  });

  it('record nothing that no alert reads', () => {
    const read = new Set([...recordings, ...alerts].flatMap(({ expr }) => seriesIn(expr)));
    assert.deepEqual(
      recordings.filter(({ record }) => !read.has(record as string)),
      [],
    );
  });

  it('say of each alert how urgent it is, what is the matter, and where to read on', () => {
    for (const { alert, labels, annotations } of alerts) {
      assert.match(labels?.severity ?? '', /^(critical|warning)$/, alert);
      assert.match(annotations?.summary ?? '', /^[A-Z].*\.$/, alert);
      assert.match(annotations?.description ?? '', /\{\{ \$labels\.job \}\}.*\.$/, alert);
      assert.equal(annotations?.runbook_url, `docs/runbook.md#${alert.toLowerCase()}`);
    }
  });

  it('are tested, each alert, where it fires and where it does not', () => {
    const files = testFiles.map((file) => load(readFileSync(file, 'utf8')) as RuleTests);
    const cases = files.flatMap(({ tests }) => tests.flatMap((each) => each.promql_expr_test));
    for (const { alert } of alerts) {
      const own = cases.filter(({ expr }) => expr.includes(`alertname="${alert}"`));
      assert.ok(
        own.some(({ exp_samples }) => exp_samples.length > 0),
        `${alert} fires nowhere`,
      );
      const quiet = cases.filter(({ exp_samples }) => exp_samples.length === 0);
      const isOf = (expr: string): boolean =>
        expr.includes(`"${alert}"`) || (expr.includes('=~') && alert.startsWith('SvcErrorBudgetBurn'));
      assert.ok(
        quiet.some(({ expr }) => isOf(expr)),
        `${alert} is nowhere silent`,
      );
    }
  });
});

requiring('prometheus', 'rules for Prometheus, by promtool', function () {
  this.timeout(60_000);
  const promtool = async (...args: string[]) => {
    const programs = await ensurePrometheus();
    const { code, stdout, stderr } = await runCommand(programs?.promtool ?? '', args, { timeoutMs: 50_000 });
    assert.equal(code, 0, `${stdout}${stderr}`);
  };

  it('are rules without duplicates', () =>
    promtool(
      'check',
      'rules',
      '--lint=all',
      '--lint-fatal',
      ...ruleFileNames.map((name) => join(opsFolder, name)),
    ));

  it('fire, and do not fire, as their tests say', () => promtool('test', 'rules', ...testFiles));
});
