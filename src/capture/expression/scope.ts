/** What an expression can see of one call. */
export interface ExpressionScope {
  readonly args: readonly unknown[];
  /** What the function returned or resolved to. */
  readonly result: unknown;
  /** The object that the method was called on. */
  readonly self: unknown;
  /** What the function threw; `undefined` when it did not. */
  readonly error?: unknown;
}
