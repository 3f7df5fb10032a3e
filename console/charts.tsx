import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import type { History } from '../src/manage/views.ts';
import { clock, count, milliseconds, percent, rate } from './format.ts';
import { history } from './live.ts';

interface Series {
  readonly name: string;
  /** Name of a CSS variable. */
  readonly color: string;
  readonly values: (history: History) => (number | null)[];
}

interface Chart {
  readonly title: string;
  readonly show: (value: number | null | undefined) => string;
  readonly series: readonly Series[];
  /** Lines that should not be crossed. */
  readonly thresholds?: readonly (readonly [value: number, color: string])[];
  readonly range: (least: number, max: number) => [number, number];
}

const perSecond =
  (column: 'published' | 'failed') =>
  (of: History): number[] =>
    of[column].map((value, index) => value / (of.seconds[index] || 10));

const charts: readonly Chart[] = [
  {
    ...{ title: 'Rate', show: (value) => (value === null ? '–' : rate(value)) },
    series: [
      { name: 'to their topics', color: '--accent', values: perSecond('published') },
      { name: 'failed', color: '--critical', values: perSecond('failed') },
    ],
    range: (_, max) => [0, Math.max(1, max * 1.15)],
  },
  {
    ...{ title: 'Success', show: (value) => (typeof value === 'number' ? percent(value / 100) : '–') },
    series: [
      {
        ...{ name: 'of the events', color: '--accent' },
        values: (of) =>
          of.published.map((value, index) => {
            const all = value + (of.failed[index] ?? 0);
            return all === 0 ? null : (value * 100) / all;
          }),
      },
    ],
    thresholds: [
      [99.5, '--warning'],
      [95, '--critical'],
    ],
    range: (least) => [Math.max(0, Math.min(94, least - 1)), 100.3],
  },
  {
    ...{ title: 'Latency', show: milliseconds },
    series: [
      { name: 'mean', color: '--accent', values: (of) => [...of.meanMs] },
      { name: 'p95', color: '--second', values: (of) => [...of.p95Ms] },
    ],
    thresholds: [
      [100, '--warning'],
      [500, '--critical'],
    ],
    range: (_, max) => [0, Math.max(10, max * 1.15)],
  },
  {
    ...{ title: 'Waiting', show: count },
    series: [
      { name: 'in memory', color: '--accent', values: (of) => [...of.queued] },
      { name: 'in the backup', color: '--warning', values: (of) => [...of.backup] },
      { name: 'in the outbox', color: '--second', values: (of) => [...of.outbox] },
    ],
    range: (_, max) => [0, Math.max(5, max * 1.15)],
  },
];

/** The last hour, or the time since the start. */
export function Charts() {
  const points = history.value;
  const length = points?.atMs.length ?? 0;
  return (
    <section class="charts" aria-label="The last hour">
      {charts.map((chart) => (
        <Figure key={chart.title} chart={chart} points={length > 0 ? points : undefined} />
      ))}
    </section>
  );
}

function Figure({ chart, points }: { readonly chart: Chart; readonly points: History | undefined }) {
  const [isTable, setTable] = useState(false);
  const columns = points === undefined ? [] : chart.series.map(({ values }) => values(points));
  const known = chart.series
    .map(({ name, color }, index) => ({ name, color, values: columns[index] ?? [] }))
    .filter(({ values }, index) => index === 0 || values.some((value) => value !== null));
  const newest = known.map(({ name, values }) => `${chart.show(values.at(-1))} ${name}`);
  return (
    <figure class="card chart">
      <figcaption>
        <h2>{chart.title}</h2>
        <button
          {...{
            type: 'button',
            class: 'quiet',
            'aria-label': `${chart.title} as a ${isTable ? 'chart' : 'table'}`,
          }}
          onClick={() => setTable(!isTable)}
        >
          {isTable ? 'Chart' : 'Table'}
        </button>
      </figcaption>
      <p class="newest">{chart.show(known[0]?.values.at(-1))}</p>
      <ul class="legend">
        {known.map(({ name, color }) => (
          <li key={name} class={color.slice(2)}>
            {name}
          </li>
        ))}
      </ul>
      {points === undefined ? (
        <p class="nothing">The first point appears ten seconds after the start.</p>
      ) : isTable ? (
        <Points {...{ chart, points, known }} />
      ) : (
        <Plot
          {...{ chart, points, known }}
          label={`${chart.title}, the last hour. Now: ${newest.join(', ')}.`}
        />
      )}
    </figure>
  );
}

interface Known {
  readonly chart: Chart;
  readonly points: History;
  readonly known: readonly {
    readonly name: string;
    readonly color: string;
    readonly values: readonly (number | null)[];
  }[];
}

function Points({ chart, points, known }: Known) {
  const rows = points.atMs.map((atMs, index) => ({ atMs, index })).reverse();
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached with the keyboard.
    <section class="scrolls" tabIndex={0} aria-label={`${chart.title}, its points`}>
      <table>
        <thead>
          <tr>
            <th scope="col">Until</th>
            {known.map(({ name }) => (
              <th key={name} scope="col" class="number">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ atMs, index }) => (
            <tr key={atMs}>
              <td>{clock(atMs)}</td>
              {known.map(({ name, values }) => (
                <td key={name} class="number">
                  {chart.show(values[index])}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

const theme = matchMedia('(prefers-color-scheme: dark)');
const colorOf = (name: string): string =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();
/** For a process that has just started. */
const leastSpanS = 300;
const heightPx = 160;

function Plot({ chart, points, known, label }: Known & { readonly label: string }) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  const data: uPlot.AlignedData = [
    points.atMs.map((ms) => ms / 1_000),
    ...known.map(({ values }) => values as (number | null)[]),
  ];
  const width = () => place.current?.clientWidth ?? 300;
  const names = known.map(({ name }) => name).join();
  // Recreated if the series change; new points are set below.
  useEffect(() => {
    const draw = () => {
      plot.current?.destroy();
      plot.current = new uPlot(optionsOf(chart, known, width()), data, place.current as HTMLElement);
    };
    draw();
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: width(), height: heightPx }));
    resized.observe(place.current as HTMLElement);
    // A canvas does not support CSS variables.
    theme.addEventListener('change', draw);
    return () => {
      resized.disconnect();
      theme.removeEventListener('change', draw);
      plot.current?.destroy();
    };
  }, [names]);
  useEffect(() => plot.current?.setData(data), [data]);
  return <div ref={place} class="plot" role="img" aria-label={label} />;
}

function optionsOf(chart: Chart, known: Known['known'], width: number): uPlot.Options {
  const axis: uPlot.Axis = {
    ...{ stroke: colorOf('--muted'), font: '12px system-ui, sans-serif' },
    grid: { stroke: colorOf('--line'), width: 1 },
    ticks: { show: false },
  };
  return {
    ...{ width, height: heightPx, legend: { show: false }, cursor: { show: false } },
    scales: {
      x: { range: (_, least, max) => [Math.min(least, max - leastSpanS), max] },
      y: { range: (_, least, max) => chart.range(least ?? 0, max ?? 0) },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        size: 28,
        values: (_, ticks) => ticks.map((s) => clock(s * 1_000).slice(0, 5)),
      },
      {
        ...axis,
        size: 52,
        values: (_, ticks) =>
          ticks.map((value) => (value > 100 && chart.title === 'Success' ? '' : shortly(value))),
      },
    ],
    series: [
      {},
      ...known.map(({ name, color }, index) => ({
        ...{ label: name, stroke: colorOf(color), width: 2, points: { show: false }, spanGaps: false },
        ...(index === 0 && { fill: colorOf('--wash') }),
      })),
    ],
    padding: [8, 16, 0, 0],
    hooks: { draw: [(plot) => drawThresholds(plot, chart)] },
  };
}

const shortly = (value: number): string =>
  Number.isInteger(value) ? count(value) : String(Math.round(value * 100) / 100);

function drawThresholds(plot: uPlot, { thresholds = [] }: Chart): void {
  const { ctx, bbox } = plot;
  ctx.save();
  for (const [value, color] of thresholds) {
    const y = Math.round(plot.valToPos(value, 'y', true));
    if (y < bbox.top || y > bbox.top + bbox.height) continue;
    ctx.strokeStyle = colorOf(color);
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([4 * devicePixelRatio, 4 * devicePixelRatio]);
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
  }
  ctx.restore();
}
