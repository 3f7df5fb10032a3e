import type { PathRule } from '../../ground/pii-rule.ts';
import type { TargetFields, targetDefaults } from './target-fields.ts';

/** What a function in the place of an expression is given. */
export interface CallValues {
  readonly args: readonly unknown[];
  readonly result: unknown;
  readonly self: unknown;
}

/** An expression, or (from code, `.mjs` and `.ts`) a function. */
export type Expression = string | ((call: CallValues) => unknown);

/** The fields of a target that a record key, an aggregate id and headers depend on; also those of a target in code. */
export type KeyFields = Pick<
  TargetFields<unknown>,
  'key' | 'outbox' | 'headers' | 'payload' | 'payloadIndex'
> & {
  /** Names of the parameters, as far as they are known. */
  readonly params?: readonly string[] | undefined;
};

type Fields = TargetFields<Expression, readonly PathRule[]>;

/** `undefined`: not given, and without a default. */
type CheckedFields = {
  readonly [Name in keyof Fields]-?: Name extends keyof typeof targetDefaults
    ? NonNullable<Fields[Name]>
    : Fields[Name] | undefined;
};

/** One valid entry of `svc.targets`, defaults filled in. */
export interface TargetConfig extends CheckedFields {
  /** `src/orders.ts#createOrder`, as reports and logs name it. */
  readonly id: string;
  /** Position in the list, from 0. */
  readonly index: number;
  /** As configured; relative to `Config.baseDir`. */
  readonly module: string;
  readonly function: string;
  readonly params: readonly string[] | undefined;
  /** For messages: `svc.config.yaml:12`. */
  readonly where: string;
}

/** `./src\\orders.ts`, `createOrder` -> `src/orders.ts#createOrder` */
export function targetId(module: string, functionPath: string): string {
  return `${module.replaceAll('\\', '/').replace(/^(\.\/)+/, '')}#${functionPath}`;
}
