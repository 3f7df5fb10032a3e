import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { dashboardFile, dashboardText, makeDashboard } from '../../scripts/dashboard.ts';
import { observedInstruments, publishDuration } from '../../src/observe/metrics.ts';

describe('ops/dashboard.json', () => {
  const panels = makeDashboard().panels;

  it('is what the script makes of the instruments: npm run docs makes it anew', () => {
    assert.equal(readFileSync(dashboardFile, 'utf8'), dashboardText());
  });

  it('shows each instrument', () => {
    const queries = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)).join('\n');
    for (const { prometheusName } of [...observedInstruments, publishDuration])
      assert.ok(queries.includes(prometheusName), prometheusName);
  });

  it('has no panel over another, and numbers each once', () => {
    const cells = panels.flatMap(({ gridPos: { h, w, x, y } }) =>
      Array.from({ length: h * w }, (_, at) => `${x + (at % w)}/${y + Math.floor(at / w)}`),
    );
    assert.equal(new Set(cells).size, cells.length);
    assert.equal(new Set(panels.map(({ id }) => id)).size, panels.length);
    assert.ok(panels.every(({ gridPos: { x, w } }) => x + w <= 24));
  });

  it('chooses datasource, job and instance by variables, and the window of a rate by the scrape interval', () => {
    const text = dashboardText();
    assert.ok(!/\[\d+[smh]\]/.test(text));
    for (const { targets = [] } of panels)
      for (const { expr } of targets) assert.ok(expr.includes('{job=~"$job", instance=~"$instance"}'), expr);
  });
});
