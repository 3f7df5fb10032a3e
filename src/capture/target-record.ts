import type { TargetState } from '../observe/metrics.ts';
import type { OnCall } from './call.ts';
import { captureNotes } from './notes.ts';
import type { CapturePlan } from './plan.ts';
import type { TargetReport } from './report.ts';
import type { RestingSlot } from './resting-slots.ts';
import { type CallCounts, type CaptureSlot, createSlot } from './slot.ts';

/** One publish target of the configuration. */
export interface CaptureTarget {
  readonly id: string;
  /** A path relative to the configuration, a package, or a `#import`. */
  readonly module: string;
  readonly functionPath: string;
  /** The texts of its expressions, for what `svc check` says about them. */
  readonly expressions?: readonly string[];
  /** Throws `SvcError` when the target's expressions do not fit the function. */
  makePlan(parameterNames: readonly string[] | undefined): CapturePlan;
}

const notCalled: CallCounts = { calls: 0, failed: 0, skipped: 0 };

/** The state of one target from the start to the end of the process. */
export class TargetRecord {
  readonly target: CaptureTarget;
  readonly #onChange: () => void;
  #state: TargetState = 'pending';
  #reason: string | undefined;
  readonly #notes = new Set<string>();
  #slot: CaptureSlot | undefined;
  #parameterNames: readonly string[] | undefined;
  #onCall: OnCall | null = null;

  constructor(target: CaptureTarget, onChange: () => void) {
    this.target = target;
    this.#onChange = onChange;
  }

  get state(): TargetState {
    return this.#state;
  }

  /** One slot, made when the function is found. Throws what `makePlan` throws, until it does not. */
  slotFor(parameterNames: readonly string[] | undefined): CaptureSlot {
    if (this.#slot === undefined) {
      this.#slot = createSlot(this.target.makePlan(parameterNames), this.#onCall);
      this.#parameterNames = parameterNames;
    }
    return this.#slot;
  }

  /** The wrappers of an earlier start are those of this target from now on. */
  resume({ slot, parameterNames }: RestingSlot): void {
    try {
      slot.plan = this.target.makePlan(parameterNames);
    } catch (error) {
      this.failed(error instanceof Error ? error.message : 'unknown error');
      return;
    }
    this.#slot = Object.assign(slot, notCalled, { onCall: this.#onCall });
    this.#parameterNames = parameterNames;
    this.patched();
  }

  /** What a later start can resume. */
  resting(): RestingSlot | undefined {
    if (this.#slot === undefined || this.#state !== 'patched') return undefined;
    return { slot: this.#slot, parameterNames: this.#parameterNames };
  }

  setOnCall(onCall: OnCall | null): void {
    this.#onCall = onCall;
    if (this.#slot) this.#slot.onCall = onCall;
  }

  note(note: string): void {
    this.#notes.add(note);
  }

  /** Reading its file shows the function. */
  found(): void {
    this.#become('found', undefined);
  }

  patched(note?: string): void {
    if (note !== undefined) this.note(note);
    this.#become('patched', undefined);
  }

  failed(reason: string): void {
    this.#become('failed', reason);
  }

  report(): TargetReport {
    const { id } = this.target;
    const met = captureNotes()
      .filter((note) => note.winner === id || note.loser === id)
      .map(({ winner, loser, reason }) => (loser === null ? reason : `${reason}: ${winner} before ${loser}`));
    const notes = [...this.#notes, ...(this.#slot?.plan.notes ?? []), ...met];
    const { calls, failed, skipped } = this.#slot ?? notCalled;
    const base = { id, state: this.#state, notes, calls, failed, skipped };
    return this.#reason === undefined ? base : { ...base, reason: this.#reason };
  }

  #become(state: TargetState, reason: string | undefined): void {
    if (this.#state === state && this.#reason === reason) return;
    this.#state = state;
    this.#reason = reason;
    this.#onChange();
  }
}
