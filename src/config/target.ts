import type { Severity } from '../severity.ts';
/** What a function in the place of an expression is given. */
export interface CallValues {
  readonly args: readonly unknown[];
  readonly result: unknown;
  readonly self: unknown;
}

/** An expression, or (from code, `.mjs` and `.ts`) a function. */
export type Expression = string | ((call: CallValues) => unknown);

/** One valid entry of `svc.targets`, defaults filled in. */
export interface TargetConfig {
  /** `src/orders.ts#createOrder`, as reports and logs name it. */
  readonly id: string;
  /** Position in the list, from 0. */
  readonly index: number;
  /** As configured; relative to `Config.baseDir`. */
  readonly module: string;
  readonly function: string;
  /** `undefined`: the path of the function. */
  readonly eventType: string | undefined;
  readonly severity: Severity;
  /** `undefined`: the default topic. */
  readonly topic: string | undefined;
  /** Wins over `payloadIndex`. */
  readonly payload: Expression | undefined;
  /** -1: the returned value. */
  readonly payloadIndex: number;
  readonly key: Expression | undefined;
  readonly phase: 'BEFORE' | 'AFTER_RETURNING' | 'AFTER';
  readonly failOnError: boolean;
  readonly params: readonly string[] | undefined;
  /** For messages: `svc.config.yaml:12`. */
  readonly where: string;
}

/** `./src\\orders.ts`, `createOrder` -> `src/orders.ts#createOrder` */
export function targetId(module: string, functionPath: string): string {
  return `${module.replaceAll('\\', '/').replace(/^(\.\/)+/, '')}#${functionPath}`;
}
