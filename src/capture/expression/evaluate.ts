import type { ExpressionScope } from './scope.ts';

/** State of one evaluation with projections or selections: the element at hand, and how many more may be visited. */
export interface Walk {
  element: unknown;
  left: number;
  /** Milliseconds of a clock that never steps, when it was first looked at. */
  startedAt: number | undefined;
}

/** A compiled node. */
export type Evaluate = (call: ExpressionScope, walk: Walk) => unknown;
