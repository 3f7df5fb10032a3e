import { shared } from '../ground/lifecycle.ts';
import { lazyPattern } from '../ground/names.ts';
import { type TargetState, targetStates } from '../observe/outcomes.ts';
import type { Nest } from './call.ts';
import type { CallCounts } from './slot.ts';

export interface TargetReport extends Readonly<CallCounts> {
  readonly id: string;
  readonly state: TargetState;
  /** Why it failed, or is unloaded; for people. */
  readonly reason?: string | undefined;
  /** Further remarks, such as which of two targets has priority. */
  readonly notes: readonly string[];
}

/** Targets without events stand out in capitals. */
const labelOf = (state: TargetState): string =>
  targetStates[state].level === 'critical' ? state.toUpperCase() : state;

/** A report on targets as text, for people. */
export const formatReport = {
  /** A headline and one line for each target, for `svc check`: nothing runs, so no function is patched. */
  inspection: (reports: readonly TargetReport[]): string => formatStates(reports, 'found', true),

  /** The same for the log of a process, which has separate warnings about targets. */
  start: (reports: readonly TargetReport[]): string => formatStates(reports, 'patched', false),

  /** A warning about targets whose module the process does not load, with the remedy. Empty if nothing is to report. */
  unloaded(unloaded: readonly TargetReport[], count: number): string {
    if (unloaded.length === 0) return '';
    return [
      `capture: ${unloaded.length} of ${count} targets made no event: no module of theirs was loaded`,
      ...table(unloaded, ({ state }) => labelOf(state), true),
    ].join('\n');
  },

  /** Targets that never made an event, except unloaded ones, for the end of the process. Empty if nothing is to report. */
  end(reports: readonly TargetReport[]): string {
    const silent = reports.filter(
      ({ state, calls, failed, skipped }) => state !== 'unloaded' && calls === failed + skipped,
    );
    if (silent.length === 0) return '';
    return [
      `capture: ${silent.length} of ${reports.length} targets made no event`,
      ...table(silent, silence, false),
    ].join('\n');
  },
};

function formatStates(reports: readonly TargetReport[], done: TargetState, withReasons: boolean): string {
  if (reports.length === 0) return 'capture: no targets';
  const count = (state: TargetState) => reports.filter((report) => report.state === state).length;
  const parts = [`${count(done)} of ${reports.length} targets ${done}`];
  for (const state of Object.keys(targetStates) as TargetState[])
    if (targetStates[state].level !== 'fine' && count(state) > 0) parts.push(`${count(state)} ${state}`);
  return [`capture: ${parts.join(', ')}`, ...table(reports, ({ state }) => labelOf(state), withReasons)].join(
    '\n',
  );
}

/** The remedy for functions that are built without a source map. */
export const writeMaps = 'write source maps in the build (tsc: "sourceMap": true; esbuild: --sourcemap)';

/** The remedy if another file is loaded instead of the target's. */
export const inPlaceOf = (file: string): string =>
  `${file} is loaded in its place: ${writeMaps}, or write module: ${file}`;

function silence({ state, calls, failed, skipped }: TargetReport): string {
  if (failed > 0 && skipped > 0) return `${failed} calls failed, ${skipped} skipped`;
  if (calls > 0) return `all ${calls} calls ${failed > 0 ? 'failed' : 'skipped'}`;
  return state === 'patched' ? 'never called' : labelOf(state);
}

function table(
  reports: readonly TargetReport[],
  label: (report: TargetReport) => string,
  withReasons: boolean,
): string[] {
  const labelWidth = Math.max(...reports.map((report) => label(report).length));
  const idWidth = Math.min(60, Math.max(...reports.map((report) => report.id.length)));
  return reports.map((report) => {
    const remarks = [withReasons ? report.reason : undefined, ...report.notes].filter(
      (each) => each !== undefined && each !== '',
    );
    return `  ${label(report).padEnd(labelWidth)}  ${report.id.padEnd(idWidth)}  ${remarks.join('; ')}`.trimEnd();
  });
}

/** A remark about two targets of one function, or about results that cannot be watched. */
interface CaptureNote {
  readonly winner: string;
  /** The id of the target without events; `null` if there is only one. */
  readonly loser: string | null;
  readonly reason: string;
}

const notes = shared<Map<string, CaptureNote>>('capture-notes', () => new Map());

export function addNote(note: CaptureNote): void {
  const key = `${note.winner}\n${note.loser}\n${note.reason}`;
  if (!notes.has(key)) notes.set(key, note);
}

/** All notes of this process, oldest first. */
function captureNotes(): readonly CaptureNote[] {
  return [...notes.values()];
}

export function notesAbout(id: string): string[] {
  return captureNotes()
    .filter((note) => note.winner === id || note.loser === id)
    .map(({ winner, loser, reason }) => (loser === null ? reason : `${reason}: ${winner} before ${loser}`));
}

const betweenWords = lazyPattern(String.raw`[^\p{L}\p{N}]+|(?<=[\p{Ll}\p{N}])(?=\p{Lu})`, 'u');
const camelCase = lazyPattern(String.raw`^\p{Ll}+\p{Lu}[\p{L}\p{N}]*$`, 'u');

/** The subject of an event: `order` of `ORDER_CREATED`, `order item` of `OrderItemAdded`, `order` of `createOrder`. */
export function subjectOf(eventType: string): string {
  const words = eventType
    .split(betweenWords())
    .filter((word) => word !== '')
    .map((word) => word.toLowerCase());
  const isVerbFirst = camelCase().test(eventType);
  return (isVerbFirst ? words.slice(1) : words.slice(0, -1)).join(' ');
}

export const keepOne = 'Keep one of them, usually the target in the service, unless you want both events';

interface Doubled {
  readonly line: string;
  /** Likely a mistake: they share an event type, or a subject and a key. */
  readonly isLikely: boolean;
}

const doubled = shared('doubled-calls', () => new Map<string, Doubled>());
const maxDoubled = 100;
/** How many calls inside one are remembered. */
const maxInner = 100;

/** Captured calls within captured calls that made events about the same thing. Each pair of targets is told once. */
export const doubledCalls = {
  /**
   * Those inside a watched call: with the same event type or key. Call it when the watched call makes its event.
   *
   * @param key `undefined`: the key is the event id
   */
  inside(nest: Nest, key: string | undefined): Doubled[] {
    if (nest.isOver) return [];
    nest.isOver = true;
    const { plan } = nest;
    const found = nest.inner.splice(0).flatMap((inner) => newlyDoubled({ plan, key }, inner));
    for (let { outer } = nest; outer !== undefined; outer = outer.outer)
      if (!outer.isOver && outer.inner.length < maxInner) outer.inner.push({ plan, key });
    return found;
  },

  /** The first pair that is likely a mistake, with the number of others. */
  remark(): string | undefined {
    const [first, ...more] = [...doubled.values()].filter(({ isLikely }) => isLikely);
    if (first === undefined) return undefined;
    return more.length === 0 ? first.line : `${first.line} (and ${more.length} other pairs of targets)`;
  },
};

function newlyDoubled(
  { plan: outer, key }: Nest['inner'][number],
  { plan: inner, key: innerKey }: Nest['inner'][number],
): Doubled[] {
  const isSameType = outer.eventType === inner.eventType;
  const isSameKey = key !== undefined && key === innerKey;
  const isLikely = isSameType || (isSameKey && subjectOf(outer.eventType) === subjectOf(inner.eventType));
  // Small numbers match by chance: two tables may both count from 1.
  const isFound = isLikely || (isSameKey && !/^\d{1,6}$/.test(key));
  const id = `${outer.id}\n${inner.id}`;
  if (!isFound || outer.id === inner.id || doubled.has(id) || doubled.size >= maxDoubled) return [];
  const events = isSameType
    ? `both ${outer.eventType}`
    : `${outer.eventType} and ${inner.eventType}, with the same key`;
  const line = `${outer.id} called ${inner.id}: one call made two events, ${events}. ${keepOne}`;
  const found = { line, isLikely };
  doubled.set(id, found);
  const reason = `one call made two events: it called ${inner.id} (${inner.eventType})`;
  addNote({ winner: outer.id, loser: null, reason });
  return [found];
}
