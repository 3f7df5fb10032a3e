import { printable } from '../../observe/printable.ts';
import type { Sample, Total } from './sample.ts';

export interface Shown {
  readonly url: string;
  readonly name: string | null;
  readonly version: string | null;
  readonly sample: Sample;
  readonly perSecond: Readonly<Record<Total, number | null>>;
}

const names: Readonly<Record<Total, string>> = {
  published: 'published',
  failed: 'failed',
  dlq: 'dead letters',
  backup: 'backup',
  lost: 'lost',
};

/** As `--json` shows it. */
export function statusDocument({ url, name, version, sample, perSecond }: Shown): object {
  const { atMs, ...rest } = sample;
  return { at: new Date(atMs).toISOString(), url, name, version, ...rest, perSecond };
}

/** A screen, in lines that 40 columns hold; longer ones are cut. */
export function statusScreen({ url, name, version, sample, perSecond }: Shown, columns: number): string {
  const { status, remark, state, findings, events, breakers, relayStandsBy, backlog } = sample;
  const lines = [
    `${name ?? 'svc'}  svc ${version ?? '-'}`,
    url,
    '',
    `health    ${status}${state === null ? '' : `  ${state}`}`,
    ...(remark === null ? [] : wrapped(printable(remark), columns - 10)).map((line) => `          ${line}`),
    ...findings.flatMap((each) => wrapped(printable(each), columns - 2).map((line) => `  ${line}`)),
    `breaker   ${breakers.broker ?? '-'}`,
    ...(breakers.outbox === null
      ? []
      : [`  outbox  ${breakers.outbox}${relayStandsBy ? ', stands by' : ''}`]),
    '',
    `${'EVENTS'.padEnd(14)}${'total'.padStart(11)}${'per s'.padStart(10)}`,
    ...(Object.keys(names) as Total[]).map(
      (each) =>
        `${names[each].padEnd(14)}${text(events[each]).padStart(11)}${text(perSecond[each]).padStart(10)}`,
    ),
    '',
    'BACKLOG',
    `in memory     ${text(backlog.memoryEvents).padStart(11)}`,
    `backup        ${text(backlog.backupEvents).padStart(11)} in ${text(backlog.backupFiles)} files`,
    ...(backlog.outboxPending === null
      ? []
      : [
          `outbox        ${text(backlog.outboxPending).padStart(11)}, oldest ${text(backlog.outboxOldestSeconds)} s`,
        ]),
  ];
  return `${lines.map((line) => printable(line).slice(0, columns)).join('\n')}\n`;
}

/** What to do is read to its end, so nothing is cut: a word that is longer than a line takes several. */
function wrapped(text: string, columns: number): string[] {
  const width = Math.max(10, columns);
  const lines: string[] = [];
  const words = text.split(' ').flatMap((word) => word.match(new RegExp(`.{1,${width}}`, 'gs')) ?? []);
  for (const word of words) {
    const last = lines.at(-1);
    if (last === undefined || last.length + word.length + 1 > width) lines.push(word);
    else lines[lines.length - 1] = `${last} ${word}`;
  }
  return lines;
}

/** For a log, or a pipe. */
export function statusLine({ sample, perSecond }: Shown): string {
  const { atMs, status, state, breakers, backlog, events } = sample;
  const rates = (Object.keys(names) as Total[]).map((each) => `${each} ${text(perSecond[each])}/s`);
  return `${[
    new Date(atMs).toISOString(),
    state === null ? status : `${status} ${state}`,
    ...rates,
    `lost ${text(events.lost)} in all`,
    `breaker ${breakers.broker ?? '-'}${breakers.outbox === null ? '' : ` outbox ${breakers.outbox}`}`,
    `memory ${text(backlog.memoryEvents)}`,
    `backup ${text(backlog.backupEvents)}`,
    ...(backlog.outboxPending === null ? [] : [`outbox ${text(backlog.outboxPending)}`]),
  ].join('  ')}\n`;
}

const text = (value: number | null): string => (value === null ? '-' : String(Math.round(value * 10) / 10));
