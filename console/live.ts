import { computed, effect, signal } from '@preact/signals';
import type { ConsoleDocument, History } from '../src/manage/views.ts';
import { ask, token } from './ask.ts';
import { type Rates, ratesOf, type Seen } from './rates.ts';

/** The state of the process, requested every two seconds while the page is visible. */
export const latest = signal<ConsoleDocument | undefined>(undefined);
export const history = signal<History | undefined>(undefined);
/** Event type -> events within each step of the last ten minutes. */
export const trends = signal<ReadonlyMap<string, readonly number[]>>(new Map());
/** Why updates fail, and since when. */
export const trouble = signal<{ readonly text: string; readonly sinceMs: number } | undefined>(undefined);
export const needsToken = signal(false);
export const isPaused = signal(false);

const everyMs = 2_000;
const patienceMs = 10_000;
/** The last hour, in steps of ten seconds. */
const maxPoints = 360;

const seen = signal<readonly Seen[]>([]);
export const rates = computed<Rates | undefined>(() => ratesOf(seen.value));

let timer: number | undefined;
let isAsking = false;

export function watch(): void {
  document.addEventListener('visibilitychange', askWhileSeen);
  effect(() => {
    // Refreshes at once with a new token and after a pause.
    if (token.value !== undefined || !isPaused.value) askWhileSeen();
  });
}

function askWhileSeen(): void {
  window.clearTimeout(timer);
  if (document.hidden || isPaused.peek() || isAsking) return;
  void askOnce().then(() => {
    window.clearTimeout(timer);
    if (!document.hidden && !isPaused.peek()) timer = window.setTimeout(askWhileSeen, everyMs);
  });
}

async function askOnce(): Promise<void> {
  isAsking = true;
  const after = history.peek()?.atMs.at(-1) ?? 0;
  const answer = await ask<ConsoleDocument>('GET', `svc/console.json?after=${after}`, { patienceMs });
  isAsking = false;
  needsToken.value = answer.status === 401;
  if ('problem' in answer) {
    trouble.value = { text: answer.problem, sinceMs: trouble.peek()?.sinceMs ?? Date.now() };
    return;
  }
  const before = latest.peek();
  trouble.value = undefined;
  if (before !== undefined && startOf(before) !== startOf(answer.value)) forget();
  else take(answer.value);
}

/** Another process answers, with its own counts. */
function forget(): void {
  seen.value = [];
  history.value = undefined;
  trends.value = new Map();
  latest.value = undefined;
}

const startOf = ({ process: { pid, host } }: ConsoleDocument): string => `${host} ${pid}`;

function take(document: ConsoleDocument): void {
  latest.value = document;
  const { atMs, counts, backup, targets } = document;
  seen.value = [...seen.value.filter((one) => one.atMs > atMs - 12_000), { atMs, counts, backup, targets }];
  if (document.trends.length > 0)
    trends.value = new Map(document.trends.map(({ eventType, events }) => [eventType, events]));
  if (document.history.atMs.length > 0 || history.value === undefined)
    history.value = joined(history.value, document.history);
}

function joined(before: History | undefined, more: History): History {
  if (before === undefined) return more;
  const columns = Object.keys(more).map((name) => {
    const key = name as keyof History;
    return [key, [...before[key], ...more[key]].slice(-maxPoints)];
  });
  return Object.fromEntries(columns) as History;
}
