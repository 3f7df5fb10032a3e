import type { CaptureSlot } from '../slot.ts';

/** One export of a package in node_modules that is to be captured. */
export interface PackageTarget {
  /** The target's id: `stripe#Stripe.prototype.refund`. */
  readonly id: string;
  /** As written in the configuration: `stripe`, `@scope/name/sub`, `node:fs`. */
  readonly specifier: string;
  readonly functionPath: string;
  /** Absolute; where the specifier is resolved from. */
  readonly baseDir: string;
  /**
   * The slot of the target, made on the first call and the same one after it. Throws `SvcError` when the plan cannot be
   * made (an expression that does not parse): the function then stays as it is, and the target has failed.
   */
  readonly slotFor: (parameterNames: readonly string[] | undefined) => CaptureSlot;
}

/** What becomes of targets in which builds of their package, told as it happens; without builds, as a whole. None throws. */
export interface PatchEvents {
  /** The function holds its wrapper now. */
  patched(id: string, builds?: readonly string[]): void;
  failed(id: string, reason: string, builds?: readonly string[]): void;
  isPatched(id: string, builds?: readonly string[]): boolean;
}
