import { shared } from '../ground/lifecycle.ts';
import type { TargetState } from '../observe/metrics.ts';
import type { CallCounts } from './slot.ts';

/** What became of one publish target. */
export interface TargetReport extends Readonly<CallCounts> {
  readonly id: string;
  readonly state: TargetState;
  /** Why it failed, or is unloaded; for people. */
  readonly reason?: string | undefined;
  /** What else a reader should know: which of two targets won, for one. */
  readonly notes: readonly string[];
}

/** What makes no events stands out. */
const labelOf = (state: TargetState): string =>
  state === 'failed' || state === 'unloaded' ? state.toUpperCase() : state;

/** A headline and one line a target, for `svc check`: nothing runs, so no function is patched. */
export function formatInspection(reports: readonly TargetReport[]): string {
  return formatStates(reports, 'found', true);
}

/** The same for the log of a process, where a warning of its own has said what is wrong with a target. */
export function formatReport(reports: readonly TargetReport[]): string {
  return formatStates(reports, 'patched', false);
}

function formatStates(reports: readonly TargetReport[], done: TargetState, withReasons: boolean): string {
  if (reports.length === 0) return 'capture: no targets';
  const count = (state: TargetState) => reports.filter((report) => report.state === state).length;
  const parts = [`${count(done)} of ${reports.length} targets ${done}`];
  for (const state of ['pending', 'unloaded', 'failed'] as const)
    if (count(state) > 0) parts.push(`${count(state)} ${state}`);
  return [`capture: ${parts.join(', ')}`, ...table(reports, ({ state }) => labelOf(state), withReasons)].join(
    '\n',
  );
}

/** Targets whose module the process does not load, and what to do: a warning. Empty when there is nothing to say. */
export function formatUnloaded(unloaded: readonly TargetReport[], count: number): string {
  if (unloaded.length === 0) return '';
  return [
    `capture: ${unloaded.length} of ${count} targets made no event: no module of theirs was loaded`,
    ...table(unloaded, ({ state }) => labelOf(state), true),
  ].join('\n');
}

/** What makes events of functions that are built without a source map. */
export const writeMaps = 'write source maps in the build (tsc: "sourceMap": true; esbuild: --sourcemap)';

/** What to do where the file that a target names is not the one that is loaded. */
export const inPlaceOf = (file: string): string =>
  `${file} is loaded in its place: ${writeMaps}, or write module: ${file}`;

/** What else to know when the process ends: targets that never made an event, beside those that are unloaded. Empty when there is nothing to say. */
export function formatEndReport(reports: readonly TargetReport[]): string {
  const silent = reports.filter(
    ({ state, calls, failed, skipped }) => state !== 'unloaded' && calls === failed + skipped,
  );
  if (silent.length === 0) return '';
  return [
    `capture: ${silent.length} of ${reports.length} targets made no event`,
    ...table(silent, silence, false),
  ].join('\n');
}

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

/** What a reader of the capture report should know about two targets that met, or about results that cannot be watched. */
interface CaptureNote {
  /** The id of the target that goes on. */
  readonly winner: string;
  /** The id of the target that makes no events; `null` where there is only one. */
  readonly loser: string | null;
  readonly reason: string;
}

const notes = shared<Map<string, CaptureNote>>('capture-notes', () => new Map());

/** Keeps a note once. */
export function addNote(note: CaptureNote): void {
  const key = `${note.winner}\n${note.loser}\n${note.reason}`;
  if (!notes.has(key)) notes.set(key, note);
}

/** All notes of this process so far, oldest first. */
export function captureNotes(): readonly CaptureNote[] {
  return [...notes.values()];
}

export function clearCaptureNotes(): void {
  notes.clear();
}
