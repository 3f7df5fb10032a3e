import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type ObservedInstrument, observedInstruments, publishDuration } from '../src/observe/metrics.ts';

/** The file of the dashboard; `node scripts/dashboard.ts` writes it. */
export const dashboardFile = fileURLToPath(new URL('../ops/dashboard.json', import.meta.url));

const selector = 'job=~"$job", instance=~"$instance"';
const datasource = { type: 'prometheus', uid: '$datasource' };
/** Rows of the dashboard: what begins so stands in it, the first that fits. */
const sections: readonly (readonly [title: string, prefix: string])[] = [
  ['Events', 'svc.events.'],
  ['Kafka', 'svc.broker.'],
  ['Kafka', 'svc.circuit.'],
  ['Kafka', 'svc.dlq.'],
  ['Memory', 'svc.buffer.'],
  ['Local backup', 'svc.backup.'],
  ['Outbox', 'svc.outbox.'],
  ['Capture and process', 'svc.'],
];
/** Of a table or a topic: the same number in every process. */
const ofAll = /^svc\.(outbox\.(pending|oldest|failed)|dlq\.waiting)/;
const units: Readonly<Record<string, string>> = { s: 's', By: 'bytes' };

export interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly gridPos: { readonly h: number; readonly w: number; readonly x: number; readonly y: number };
  readonly targets?: readonly { readonly expr: string }[];
}

interface Chart {
  readonly section: string;
  readonly title: string;
  readonly description: string;
  readonly unit: string;
  readonly queries: readonly (readonly [expr: string, legend: string])[];
}

/** One panel for each instrument of svc, in rows; classic JSON, which Grafana 13 takes as 9 did. */
export function makeDashboard(): { readonly panels: readonly Panel[] } & Record<string, unknown> {
  const charts = [durations(), ...observedInstruments.map(chartOf)];
  const panels: Panel[] = [];
  let y = 0;
  for (const section of new Set(sections.map(([title]) => title))) {
    panels.push({
      id: panels.length + 1,
      type: 'row',
      title: section,
      gridPos: { h: 1, w: 24, x: 0, y: y++ },
    });
    const own = charts.filter((chart) => chart.section === section);
    own.forEach((chart, at) => {
      const gridPos = { h: 8, w: 8, x: (at % 3) * 8, y: y + Math.floor(at / 3) * 8 };
      panels.push(panelOf(chart, panels.length + 1, gridPos));
    });
    y += Math.ceil(own.length / 3) * 8;
  }
  const labels = (name: string, of: string) => ({
    ...{ name, type: 'query', datasource, query: `label_values(${of}, ${name})`, refresh: 2 },
    ...{ includeAll: true, multi: true, allValue: '.*', sort: 1, current: { text: 'All', value: '$__all' } },
  });
  return {
    ...{ uid: 'svc-events', title: 'svc', tags: ['svc'], schemaVersion: 39, editable: true, refresh: '30s' },
    time: { from: 'now-3h', to: 'now' },
    templating: {
      list: [
        { name: 'datasource', type: 'datasource', query: 'prometheus' },
        labels('job', 'svc_buffer_events'),
        labels('instance', 'svc_buffer_events{job=~"$job"}'),
      ],
    },
    panels,
  };
}

function chartOf({
  name,
  prometheusName,
  description,
  kind,
  unit,
  attributeKeys,
}: ObservedInstrument): Chart {
  const counts = kind === 'counter';
  const by = attributeKeys.length === 0 ? '' : ` by (${attributeKeys.join(', ')}) `;
  const series = `${prometheusName}{${selector}}`;
  // Processes of one machine may share a folder: neither a sum nor one of them says what waits.
  const perProcess = /^svc\.(circuit|worker|backup)/.test(name) && !counts;
  const isTime = name.endsWith('.timestamp.seconds');
  const how =
    isTime && name.includes('oldest')
      ? 'min'
      : perProcess || ofAll.test(name) || unit === 's'
        ? 'max'
        : 'sum';
  const grouping = perProcess ? ` by (${['job', 'instance', ...attributeKeys].join(', ')}) ` : by;
  const value = `${how}${grouping}(${counts ? `rate(${series}[$__rate_interval])` : series})`;
  // A Unix time is shown as how long ago it is.
  const expr = isTime ? `time() - ${value}` : value;
  const keys = perProcess ? ['instance', ...attributeKeys] : attributeKeys;
  const legend = keys.length === 0 ? name : keys.map((key) => `{{${key}}}`).join(' ');
  const section = sections.find(([, prefix]) => name.startsWith(prefix))?.[0] as string;
  const title = counts ? `${name}, per second` : isTime ? `${name}, how long ago` : name;
  return { section, title, description, unit: units[unit] ?? 'short', queries: [[expr, legend]] };
}

function durations(): Chart {
  const of = (part: string): string =>
    `rate(${publishDuration.prometheusName}_${part}{${selector}}[$__rate_interval])`;
  const quantile = (share: number): readonly [string, string] => [
    `histogram_quantile(${share}, sum by (le) (${of('bucket')}))`,
    `p${share * 100}`,
  ];
  const mean = [`sum(${of('sum')}) / sum(${of('count')})`, 'mean'] as const;
  const { name: title, description } = publishDuration;
  return { section: 'Events', title, description, unit: 's', queries: [mean, quantile(0.5), quantile(0.99)] };
}

function panelOf({ title, description, unit, queries }: Chart, id: number, gridPos: Panel['gridPos']): Panel {
  const targets = queries.map(([expr, legendFormat], at) => ({
    ...{ refId: 'ABC'[at], datasource, expr, legendFormat },
  }));
  const shown = { fieldConfig: { defaults: { unit, min: 0 }, overrides: [] }, description, datasource };
  return { id, type: 'timeseries', title, gridPos, ...shown, targets };
}

export const dashboardText = (): string => `${JSON.stringify(makeDashboard(), null, 2)}\n`;

if (process.argv[1] === fileURLToPath(import.meta.url)) writeFileSync(dashboardFile, dashboardText());
