import type { CallCounts } from './slot.ts';

export type TargetState = 'pending' | 'patched' | 'failed';

/** What became of one publish target. */
export interface TargetReport extends Readonly<CallCounts> {
  readonly id: string;
  /** `pending`: its module is not loaded yet. */
  readonly state: TargetState;
  /** Why it failed; for people. */
  readonly reason?: string | undefined;
  /** What else a reader should know: which of two targets won, for one. */
  readonly notes: readonly string[];
}

/** A target whose module was never loaded. */
export interface NeverLoaded {
  readonly id: string;
  /** The file that was loaded, and is made of the target's: what to write in its place. */
  readonly instead: string | undefined;
  /** What else a reader should know: that a preload does not reach it, for one. */
  readonly notes: readonly string[];
}

const labels: Record<TargetState, string> = {
  pending: 'not yet loaded',
  patched: 'patched',
  failed: 'FAILED',
};

/** A headline and one line a target, for the log and for `svc check`. */
export function formatReport(reports: readonly TargetReport[]): string {
  if (reports.length === 0) return 'capture: no targets';
  const count = (state: TargetState) => reports.filter((report) => report.state === state).length;
  const parts = [`${count('patched')} of ${reports.length} targets patched`];
  if (count('pending') > 0) parts.push(`${count('pending')} not yet loaded`);
  if (count('failed') > 0) parts.push(`${count('failed')} failed`);
  return [`capture: ${parts.join(', ')}`, ...table(reports, (report) => labels[report.state])].join('\n');
}

/** Why is known where svc came too late for it: then that is what there is to say. */
export const isNeverLoaded = ({ state, reason, calls }: TargetReport): boolean =>
  state === 'pending' && reason === undefined && calls === 0;

/** Targets whose module the process never loaded, and what to write. Empty when there is nothing to say. */
export function formatNeverLoaded(targets: readonly NeverLoaded[], count: number): string {
  if (targets.length === 0) return '';
  const width = Math.min(60, Math.max(...targets.map(({ id }) => id.length)));
  const lines = targets.map(({ id, instead, notes }) => {
    const remarks = instead === undefined ? notes : [inPlaceOf(instead), ...notes];
    return `  never loaded  ${id.padEnd(width)}  ${remarks.join('; ')}`.trimEnd();
  });
  return [
    `capture: ${targets.length} of ${count} targets made no event: no module of theirs was loaded`,
    ...lines,
  ].join('\n');
}

/** What to write where the file that a target names is not the one that is loaded. */
export const inPlaceOf = (file: string): string => `${file} is loaded in its place: write module: ${file}`;

/** What else to know when the process ends: targets that never made an event. Empty when there is nothing to say. */
export function formatEndReport(reports: readonly TargetReport[]): string {
  const silent = reports.filter(
    (report) => report.calls === report.failed + report.skipped && !isNeverLoaded(report),
  );
  if (silent.length === 0) return '';
  return [
    `capture: ${silent.length} of ${reports.length} targets made no event`,
    ...table(silent, silence),
  ].join('\n');
}

function silence({ state, calls, failed, skipped }: TargetReport): string {
  if (failed > 0 && skipped > 0) return `${failed} calls failed, ${skipped} skipped`;
  if (calls > 0) return `all ${calls} calls ${failed > 0 ? 'failed' : 'skipped'}`;
  if (state === 'failed') return labels.failed;
  if (state === 'patched') return 'never called';
  return 'not captured';
}

function table(reports: readonly TargetReport[], label: (report: TargetReport) => string): string[] {
  const labelWidth = Math.max(...reports.map((report) => label(report).length));
  const idWidth = Math.min(60, Math.max(...reports.map((report) => report.id.length)));
  return reports.map((report) => {
    const remarks = [report.reason, ...report.notes].filter((each) => each !== undefined && each !== '');
    return `  ${label(report).padEnd(labelWidth)}  ${report.id.padEnd(idWidth)}  ${remarks.join('; ')}`.trimEnd();
  });
}
