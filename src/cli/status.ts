import { sleep } from '../ground/builtins.ts';
import { version as ownVersion } from '../ground/version.ts';
import { printable, printableJson } from '../observe/logger.ts';
import { onStopSignal } from './progress.ts';
import {
  askProcess,
  findProcess,
  type ManagedProcess,
  NoAnswer,
  type ProcessOptions,
  ratesOf,
  type Sample,
  sayOtherVersion,
  type Total,
  takeSample,
} from './running.ts';

interface StatusOptions extends ProcessOptions {
  readonly once?: true;
}

/** A rate needs a time to be of. */
const onceMs = 1_000;
const everyMs = 2_000;
const fallbackColumns = 80;
const toTop = '\u001b[H\u001b[J';
const ownScreen = ['\u001b[?1049h\u001b[?25l', '\u001b[?25h\u001b[?1049l'] as const;

/** `svc status`: whether events flow in a running process, and what waits. Exit code 1: it is DOWN, or does not answer. */
export async function runStatus(options: StatusOptions): Promise<number> {
  const found = findProcess(options);
  const stopping = new AbortController();
  const forget = onStopSignal(() => stopping.abort());
  try {
    const { name, version } = await whoIs(found);
    sayOtherVersion(version, ownVersion);
    const first = await takeSample(found);
    const show = (sample: Sample, before: Sample): Shown => ({
      ...{ url: found.url, name, version, sample, perSecond: ratesOf(before, sample) },
    });
    if (options.once) {
      await pause(onceMs, stopping.signal);
      const shown = show(await takeSample(found), first);
      const columns = process.stdout.columns ?? fallbackColumns;
      write(options.json ? `${printableJson(statusDocument(shown), 2)}\n` : statusScreen(shown, columns));
      return shown.sample.status === 'UP' ? 0 : 1;
    }
    return await watch(found, first, show, options.json === true, stopping.signal);
  } catch (error) {
    if (!(error instanceof NoAnswer)) throw error;
    process.stderr.write(`svc: ${printable(error.message)}\n`);
    return 1;
  } finally {
    forget();
  }
}

/** Until somebody ends it. A process that goes away may come back. */
async function watch(
  found: ManagedProcess,
  first: Sample,
  show: (sample: Sample, before: Sample) => Shown,
  isJson: boolean,
  signal: AbortSignal,
): Promise<number> {
  const isScreen = process.stdout.isTTY === true && !isJson;
  let before = first;
  if (isScreen) write(ownScreen[0]);
  try {
    for (let now = first; !signal.aborted; ) {
      const shown = show(now, before);
      if (isJson) write(`${printableJson(statusDocument(shown))}\n`);
      else if (isScreen)
        write(`${toTop}${statusScreen(shown, process.stdout.columns ?? fallbackColumns)}\nCtrl-C ends`);
      else write(statusLine(shown));
      before = now;
      now = await next(found, isScreen, signal, now);
    }
  } finally {
    if (isScreen) write(ownScreen[1]);
  }
  return 0;
}

/** The next one that it gives; what is in its place meanwhile stays on the screen. */
async function next(
  found: ManagedProcess,
  isScreen: boolean,
  signal: AbortSignal,
  last: Sample,
): Promise<Sample> {
  let isSaid = false;
  while (!signal.aborted) {
    await pause(everyMs, signal);
    if (signal.aborted) break;
    try {
      return await takeSample(found);
    } catch (error) {
      if (!(error instanceof NoAnswer)) throw error;
      const line = printable(error.message);
      if (isScreen) write(`\r${line.slice(0, process.stdout.columns ?? fallbackColumns)}\u001b[K`);
      else if (!isSaid) process.stderr.write(`svc: ${line}\n`);
      isSaid = true;
    }
  }
  return last;
}

async function whoIs(found: ManagedProcess): Promise<{ name: string | null; version: string | null }> {
  const { body } = await askProcess(found, '/actuator/info');
  const { service, svc } = (body ?? {}) as { service?: { name?: unknown }; svc?: { version?: unknown } };
  const text = (value: unknown): string | null => (typeof value === 'string' ? value : null);
  return { name: text(service?.name), version: text(svc?.version) };
}

const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  sleep(ms, undefined, { signal }).catch(() => {});

function write(text: string): void {
  process.stdout.write(text);
}

interface Shown {
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
function statusDocument({ url, name, version, sample, perSecond }: Shown): object {
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
function statusLine({ sample, perSecond }: Shown): string {
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
