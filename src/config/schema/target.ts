import type { Severity } from '../../ground/event-fields.ts';
import type { PathRule } from '../../ground/pii-rule.ts';

/** What a function in the place of an expression is given. */
export interface CallValues {
  readonly args: readonly unknown[];
  readonly result: unknown;
  readonly self: unknown;
}

/** An expression, or (from code, `.mjs` and `.ts`) a function. */
export type Expression = string | ((call: CallValues) => unknown);

/** The fields of a target that a record key and headers depend on; also those of a target in code. */
export interface KeyFields {
  readonly key?: unknown;
  readonly headers?: unknown;
  readonly payload?: unknown;
  readonly payloadIndex?: number | undefined;
}

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
  /** Which calls make an event; `undefined`: all. */
  readonly when: Expression | undefined;
  readonly key: Expression | undefined;
  readonly headers: Readonly<Record<string, Expression>> | undefined;
  /** The function's last argument is a callback, the error first. */
  readonly callback: 'last' | undefined;
  readonly phase: 'BEFORE' | 'AFTER_RETURNING' | 'AFTER';
  readonly failOnError: boolean;
  /** Rules for the payload; those with an empty path mean it as a whole. */
  readonly pii: readonly PathRule[] | undefined;
  readonly params: readonly string[] | undefined;
  /** For messages: `svc.config.yaml:12`. */
  readonly where: string;
}

/** `./src\\orders.ts`, `createOrder` -> `src/orders.ts#createOrder` */
export function targetId(module: string, functionPath: string): string {
  return `${module.replaceAll('\\', '/').replace(/^(\.\/)+/, '')}#${functionPath}`;
}
