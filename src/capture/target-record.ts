import { join } from 'node:path';
import { shared } from '../ground/lifecycle.ts';
import type { TargetState } from '../observe/outcomes.ts';
import type { CapturePlan, OnCall } from './call.ts';
import { notesAbout, type TargetReport } from './report.ts';
import { type CallCounts, type CaptureSlot, createSlot } from './slot.ts';
import { messageOf } from './source/wrapper-place.ts';

export interface CaptureTarget {
  readonly id: string;
  /** A path relative to the configuration, a package, or a `#import`. */
  readonly module: string;
  readonly functionPath: string;
  readonly expressions?: readonly string[];
  /** Throws `SvcError` if the target's expressions do not fit the function. */
  makePlan(parameterNames: readonly string[] | undefined): CapturePlan;
}

/** The build of a target outside packages: an own file, or a module of Node. */
const whole: readonly string[] = [''];

const isWay = (build: string): boolean => build === 'import' || build === 'require';

/** Whether a build is a file that a start has read: `./src/orders.ts`. */
const isFile = (build: string): boolean => build.startsWith('.');

function where(build: string): string {
  if (isWay(build)) return `what ${build} loads`;
  return isFile(build) ? build : `the copy ${build}`;
}

const notCalled: CallCounts = { calls: 0, failed: 0, skipped: 0 };

/** What the wrappers of an earlier start hold. A module is loaded once, and its wrappers stay. */
interface RestingSlot {
  readonly slot: CaptureSlot;
  readonly parameterNames: readonly string[] | undefined;
  /** Builds of a package without such a wrapper, and why. */
  readonly failedIn: ReadonlyMap<string, string>;
}

const resting = shared('resting-slots', () => new Map<string, RestingSlot>());

export class TargetRecord {
  readonly target: CaptureTarget;
  readonly #onChange: () => void;
  #state: TargetState = 'pending';
  #doneAs: 'found' | 'patched' = 'patched';
  #reason: string | undefined;
  readonly #notes = new Set<string>();
  /** The builds of a package, linked or installed, in which it is captured; for other targets, `whole`. */
  readonly #doneIn = new Set<string>();
  readonly #failedIn = new Map<string, string>();
  /** Builds whose text does not show the function, with a remark. */
  readonly #openIn = new Map<string, string>();
  readonly #isLoaded: (build: string) => boolean;
  #slot: CaptureSlot | undefined;
  #parameterNames: readonly string[] | undefined;
  #onCall: OnCall | null = null;

  /** `isLoaded`: whether the application loads that build of the package; a start learns only of loaded builds. */
  constructor(
    target: CaptureTarget,
    onChange: () => void,
    isLoaded: (build: string) => boolean = (build) => isWay(build) || isFile(build),
  ) {
    this.target = target;
    this.#onChange = onChange;
    this.#isLoaded = isLoaded;
  }

  get state(): TargetState {
    return this.#state;
  }

  /** One slot, made when the function is found. Throws the error of `makePlan` until that succeeds. */
  slotFor(parameterNames: readonly string[] | undefined): CaptureSlot {
    if (this.#slot === undefined) {
      this.#slot = createSlot(this.target.makePlan(parameterNames), this.#onCall);
      this.#parameterNames = parameterNames;
    }
    return this.#slot;
  }

  /** Lets this target take over the wrappers of an earlier start of this process. */
  resume(baseDir: string): void {
    const key = this.#keyIn(baseDir);
    const found = resting.get(key);
    resting.delete(key);
    if (found === undefined) return;
    const { slot, parameterNames, failedIn } = found;
    try {
      slot.plan = this.target.makePlan(parameterNames);
    } catch (error) {
      this.failed(messageOf(error));
      return;
    }
    this.#slot = Object.assign(slot, notCalled, { onCall: this.#onCall });
    this.#parameterNames = parameterNames;
    this.patched();
    for (const [build, reason] of failedIn) this.failed(reason, [build]);
  }

  /** At the end of a capture: keeps the slot for the next one of this process. */
  rest(baseDir: string): void {
    this.setOnCall(null);
    if (this.#slot === undefined || this.#doneIn.size === 0) return;
    const rest = { slot: this.#slot, parameterNames: this.#parameterNames, failedIn: this.#failedIn };
    resting.set(this.#keyIn(baseDir), rest);
  }

  #keyIn(baseDir: string): string {
    return `${join(baseDir, this.target.module)}#${this.target.functionPath}`;
  }

  setOnCall(onCall: OnCall | null): void {
    this.#onCall = onCall;
    if (this.#slot) this.#slot.onCall = onCall;
  }

  note(note: string): void {
    this.#notes.add(note);
  }

  found(builds = whole): void {
    this.#done('found', builds);
  }

  /** Only running the package shows whether the function exists. */
  unseen(why: string, builds = whole): void {
    for (const build of builds) this.#openIn.set(build, why);
    if (this.#doneIn.size > 0) this.#settle('');
  }

  patched(note?: string, builds = whole): void {
    if (note !== undefined) this.note(note);
    this.#done('patched', builds);
  }

  failed(reason: string, builds = whole): void {
    for (const build of builds) {
      this.#doneIn.delete(build);
      this.#failedIn.set(build, reason);
    }
    this.#settle(reason);
  }

  isDone(builds = whole): boolean {
    return builds.every((build) => this.#doneIn.has(build));
  }

  /** Whether none of these builds has been reported. */
  isUntold(builds = whole): boolean {
    return !builds.some((build) => this.#doneIn.has(build) || this.#failedIn.has(build));
  }

  report(): TargetReport {
    const { id } = this.target;
    const notes = [
      ...this.#notes,
      ...this.#elsewhere(),
      ...(this.#slot?.plan.notes ?? []),
      ...notesAbout(id),
    ];
    const { calls, failed, skipped } = this.#slot ?? notCalled;
    const base = { id, state: this.#state, notes, calls, failed, skipped };
    return this.#reason === undefined ? base : { ...base, reason: this.#reason };
  }

  #done(state: 'found' | 'patched', builds: readonly string[]): void {
    this.#doneAs = state;
    for (const build of builds) {
      this.#failedIn.delete(build);
      this.#doneIn.add(build);
    }
    this.#settle('');
  }

  /** One build of a package is enough, except for those that the application loads. */
  #settle(last: string): void {
    if (this.#doneIn.size === 0) {
      this.#become('failed', last);
      return;
    }
    const [build, reason] = [...this.#failedIn].find(([each]) => this.#isLoaded(each)) ?? [];
    const isOpen = [...this.#openIn.keys()].some((each) => this.#isLoaded(each) && !this.#doneIn.has(each));
    if (build === undefined) this.#become(isOpen ? 'pending' : this.#doneAs, undefined);
    else this.#become('failed', `${reason} (in ${where(build)}; elsewhere it is captured)`);
  }

  /** Builds without it that the application does not load, as far as known, and those whose text does not show it. */
  #elsewhere(): string[] {
    const failed = [...this.#failedIn].filter(([build]) => build !== '' && !this.#isLoaded(build));
    const open = [...this.#openIn].filter(
      ([build]) => !this.#doneIn.has(build) && !this.#failedIn.has(build),
    );
    const unseen = new Map(open.map(([build, why]) => [why, where(build)]));
    return [
      ...(this.#doneIn.size === 0 ? [] : failed.map(([build, why]) => `not in ${where(build)}: ${why}`)),
      ...[...unseen].map(([why, place]) => (this.#doneIn.size === 0 ? why : `in ${place}: ${why}`)),
    ];
  }

  #become(state: TargetState, reason: string | undefined): void {
    if (this.#state === state && this.#reason === reason) return;
    this.#state = state;
    this.#reason = reason;
    this.#onChange();
  }
}
