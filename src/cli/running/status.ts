import { sleep } from '../../ground/builtins.ts';
import { version as ownVersion } from '../../ground/version.ts';
import { printable, printableJson } from '../../observe/printable.ts';
import { onStopSignal } from '../progress.ts';
import { askProcess, NoAnswer, sayOtherVersion } from './ask-process.ts';
import { findProcess, type ManagedProcess, type ProcessOptions } from './find-process.ts';
import { ratesOf, type Sample, takeSample } from './sample.ts';
import { type Shown, statusDocument, statusLine, statusScreen } from './status-view.ts';

export interface StatusOptions extends ProcessOptions {
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
