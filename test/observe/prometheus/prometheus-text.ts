import assert from 'node:assert/strict';

/** A family of the text format: what Prometheus reads of it. */
export interface Family {
  readonly help: string;
  readonly type: string;
  /** By name and labels, such as `svc_events_lost_total{"eventType":"A"}`. */
  readonly series: Readonly<Record<string, number>>;
}

const headLine = /^# (HELP|TYPE|UNIT) (\w+) (.+)$/;
const seriesLine = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/s;
const label = /([a-zA-Z_]\w*)="((?:[^"\\\n]|\\[\\"n])*)"(?:,|$)/y;

/** Reads the Prometheus text format 0.0.4, and fails on what it does not allow: a reader of its own, apart from what writes it. */
export function parsePrometheus(text: string): Map<string, Family> {
  assert.ok(text.endsWith('\n') && !text.endsWith('\n\n'), 'ends in one line feed');
  const families = new Map<string, { help: string; type: string; series: Record<string, number> }>();
  let family = '';
  for (const line of text.slice(0, -1).split('\n')) {
    const head = headLine.exec(line);
    if (head !== null) {
      const [, what, name = '', rest = ''] = head;
      if (what === 'HELP') {
        assert.ok(!families.has(name), `${name} twice`);
        families.set(name, { help: rest, type: '', series: {} });
        family = name;
      }
      assert.equal(name, family);
      assert.notEqual(what, 'UNIT', 'the text format has no units');
      if (what === 'TYPE') Object.assign(families.get(name) as object, { type: rest });
      continue;
    }
    const [, name = '', labels = '', value = ''] = seriesLine.exec(line) ?? assert.fail(`no series: ${line}`);
    const { type, series } = families.get(family) ?? assert.fail(`no family: ${line}`);
    const own = type === 'histogram' ? name.replace(/_(bucket|sum|count)$/, '') : name;
    assert.equal(own, family);
    const key = `${name}${JSON.stringify(readLabels(labels))}`;
    assert.ok(!(key in series), `${key} twice`);
    series[key] = readNumber(value);
  }
  return families;
}

function readLabels(text: string): Record<string, string> {
  const labels: Record<string, string> = {};
  label.lastIndex = 0;
  while (label.lastIndex < text.length) {
    const [, name = '', value = ''] = label.exec(text) ?? assert.fail(`no labels: ${text}`);
    labels[name] = value.replace(/\\(.)/g, (_, escaped: string) => (escaped === 'n' ? '\n' : escaped));
  }
  return labels;
}

function readNumber(text: string): number {
  const special: Record<string, number> = { '+Inf': Infinity, '-Inf': -Infinity, NaN };
  const value = special[text] ?? Number(text);
  assert.ok(text in special || Number.isFinite(value), `no number: ${text}`);
  return value;
}
