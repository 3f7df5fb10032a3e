import { signal } from '@preact/signals';
import type { ConsoleDocument } from '../src/manage/views.ts';
import { bytes, count, duration, plural, rate } from './format.ts';
import { rates } from './live.ts';
import { callsOf, type Rates } from './rates.ts';

type Name = 'targets' | 'queue' | 'topic' | 'outbox' | 'backup' | 'deadLetters';

interface Station {
  readonly title: string;
  readonly number: string;
  readonly more: string;
  readonly level?: 'warning' | 'critical' | undefined;
}

interface Line {
  readonly path: string;
  readonly label: readonly [x: number, y: number];
  readonly rate: keyof Rates;
}

interface Layout {
  readonly width: number;
  readonly height: number;
  readonly size: readonly [width: number, height: number];
  readonly places: Readonly<Record<Name, readonly [x: number, y: number, width?: number]>>;
  readonly lines: readonly (Line & { readonly needs?: Name })[];
}

const wide: Layout = {
  ...{ width: 1120, height: 400, size: [220, 96] },
  places: {
    ...{ targets: [0, 152], queue: [450, 152], topic: [900, 152] },
    ...{ outbox: [450, 8], deadLetters: [310, 296], backup: [590, 296] },
  },
  lines: [
    { path: 'M220 200H444', label: [332, 190], rate: 'queued' },
    { path: 'M670 200H894', label: [782, 190], rate: 'published' },
    { path: 'M110 152V76Q110 56 130 56H444', label: [332, 46], rate: 'stored', needs: 'outbox' },
    { path: 'M670 56H990Q1010 56 1010 76V146', label: [782, 46], rate: 'relayed', needs: 'outbox' },
    { path: 'M500 248V272H420V290', label: [420, 266], rate: 'deadLetters' },
    { path: 'M620 248V272H700V290', label: [700, 266], rate: 'backup' },
    { path: 'M810 344H990Q1010 344 1010 324V254', label: [900, 334], rate: 'drained' },
  ],
};

const narrow: Layout = {
  ...{ width: 358, height: 476, size: [150, 92] },
  places: {
    ...{ targets: [0, 4], queue: [0, 132], topic: [0, 380, 324] },
    ...{ outbox: [174, 4], backup: [174, 132], deadLetters: [174, 258] },
  },
  lines: [
    { path: 'M75 96V126', label: [38, 117], rate: 'queued' },
    { path: 'M75 224V374', label: [38, 320], rate: 'published' },
    { path: 'M150 50H168', label: [249, 117], rate: 'stored', needs: 'outbox' },
    {
      path: 'M324 50H332Q344 50 344 62V414Q344 426 332 426H330',
      label: [0, 0],
      rate: 'relayed',
      needs: 'outbox',
    },
    { path: 'M150 178H168', label: [249, 245], rate: 'backup' },
    { path: 'M120 224V292Q120 304 132 304H168', label: [249, 370], rate: 'deadLetters' },
    { path: 'M324 190H332Q344 190 344 202V414Q344 426 332 426H330', label: [0, 0], rate: 'drained' },
  ],
};

const isNarrow = signal(false);
const query = matchMedia('(max-width: 720px)');
isNarrow.value = query.matches;
query.addEventListener('change', () => {
  isNarrow.value = query.matches;
});

export function Way({ document }: { readonly document: ConsoleDocument }) {
  const stations = stationsOf(document);
  const layout = isNarrow.value ? narrow : wide;
  const [stationWidth, height] = layout.size;
  const now = rates.value;
  const top = stations.outbox === undefined && !isNarrow.value ? 140 : 0;
  return (
    <section class="card way" aria-labelledby="way">
      <h2 id="way">Event flow</h2>
      <svg
        viewBox={`-1 ${top} ${layout.width + 2} ${layout.height - top}`}
        role="img"
        aria-label={textOf(stations, now)}
      >
        <defs>
          <marker id="tip" viewBox="0 0 8 8" refX="2" refY="4" markerWidth="7" markerHeight="7" orient="auto">
            <path d="M0 0L8 4L0 8Z" />
          </marker>
        </defs>
        {layout.lines
          .filter(({ needs }) => needs === undefined || stations[needs] !== undefined)
          .map(({ path, label: [x, y], rate: of }) => (
            <g key={of} class={`line ${(now?.[of] ?? 0) > 0 ? 'flows' : ''} ${of}`}>
              <path d={path} marker-end="url(#tip)" />
              {x > 0 && (
                <text x={x} y={y}>
                  {rate(now?.[of])}
                </text>
              )}
            </g>
          ))}
        {Object.entries(stations).map(([name, station]) => {
          const [x, y, width = stationWidth] = layout.places[name as Name];
          return (
            <g key={name} class={`station ${name} ${station.level ?? ''}`}>
              <rect {...{ x, y, width, height, rx: 12 }} />
              <text class="name" x={x + 16} y={y + 24}>
                {station.title}
              </text>
              <text class="number" x={x + 16} y={y + 56}>
                {station.number}
              </text>
              <text class="more" x={x + 16} y={y + 80}>
                {name === 'topic' ? fitting(station.more, width - 32) : station.more}
              </text>
            </g>
          );
        })}
      </svg>
    </section>
  );
}

function stationsOf(document: ConsoleDocument): Partial<Record<Name, Station>> {
  const { counts, queue, backup, deadLetters, targets, breakers, health } = document;
  const { outbox } = health.details;
  const failed = targets.filter(({ state }) => state === 'failed').length;
  const sent = counts.published + counts.relayed;
  return {
    targets: {
      ...{ title: 'Targets', number: count(callsOf(document)) },
      more:
        failed > 0
          ? `${failed} of ${targets.length} not patched`
          : `calls of ${plural(targets.length, 'target')}`,
      level: failed > 0 ? 'warning' : undefined,
    },
    ...(outbox && {
      outbox: {
        ...{ title: 'Outbox', number: count(outbox.totalPending) },
        more: outbox.totalFailed
          ? `${count(outbox.totalFailed)} given up`
          : outbox.totalPending
            ? `oldest ${duration(outbox.oldestPendingMs)}`
            : 'nothing waits',
        level: outbox.status === 'DOWN' ? 'critical' : outbox.totalFailed ? 'warning' : undefined,
      },
    }),
    queue: {
      ...{ title: 'Queue', number: count(queue.events) },
      more: breakers.broker === 'CLOSED' ? `${bytes(queue.bytes)} in memory` : `breaker ${breakers.broker}`,
      level: breakers.broker === 'CLOSED' ? undefined : 'critical',
    },
    topic: {
      ...{ title: 'Topic', number: count(sent) },
      more: health.details.topic ?? 'by event',
    },
    deadLetters: {
      ...{ title: 'Dead letters', number: count(deadLetters.waiting ?? counts.dlq) },
      more: deadLetters.waiting === null ? 'from here' : `wait, ${count(counts.dlq)} from here`,
      level: (deadLetters.waiting ?? counts.dlq) > 0 ? 'warning' : undefined,
    },
    backup: {
      ...{ title: 'Backup', number: count(backup.events) },
      more:
        backup.events > 0 ? `oldest ${duration(backup.oldestMs)}` : `${count(backup.drained)} sent from it`,
      level: backup.events > 0 ? 'warning' : undefined,
    },
  };
}

/** Average width of the widest letters. */
const characterWidth = 8.5;

/** A topic name may have 249 characters; its ends say most. */
function fitting(text: string, width: number): string {
  const max = Math.floor(width / characterWidth);
  if (text.length <= max) return text;
  return `${text.slice(0, Math.ceil(max / 2) - 1)}…${text.slice(-Math.floor(max / 2))}`;
}

/** For screen readers. */
function textOf(stations: Partial<Record<Name, Station>>, now: Rates | undefined): string {
  const parts = Object.values(stations).map(({ title, number, more }) => `${title}: ${number}, ${more}`);
  return `${parts.join('. ')}. ${rate(now?.calls)} calls, ${rate(now?.published)} to the topic.`;
}
