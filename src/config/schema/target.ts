import { type Severity, severities } from '../../ground/event-fields.ts';
import type { PathRule, PiiRules } from '../../ground/pii-rule.ts';
import type { Row } from './schema.ts';

/** What a function in the place of an expression is given. */
interface CallValues {
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

const phases = ['BEFORE', 'AFTER_RETURNING', 'AFTER'] as const;
/** When a captured function makes its event: before it runs, after it succeeded, or after it ended either way. */
export type Phase = (typeof phases)[number];

/** The transactional outbox of a target: its events are stored in the transaction of the call, and sent from there. */
export interface OutboxFields<Select> {
  /** What the event is about, such as `Order`. */
  readonly aggregateType: string;
  /**
   * Which one: a function of the call, or an expression (`#result.id`). Events of one aggregate keep their order, and it is
   * the record key where `key` is not given.
   */
  readonly aggregateId: Select;
  /**
   * `transaction`: `#result` is what the transaction that the function opens itself gives back, as the callback of
   * `transaction(…)` returns it, or what an ORM saves in one of its own. Default: what the function returns.
   */
  readonly result?: 'transaction' | undefined;
}

/**
 * What a publish target says of its events, in the configuration and in code alike. `Select` is an expression or a function
 * of the call.
 */
export interface TargetFields<Select, Pii = PiiRules> {
  /** Default: `ClassName.methodName`, or the function's name. */
  readonly eventType?: string | undefined;
  /** Default: INFO. */
  readonly severity?: Severity | undefined;
  /** Default: `svc.broker.topic`. */
  readonly topic?: string | undefined;
  /** A function of the call, or an expression (`#result.orderId`). Default: the return value. */
  readonly payload?: Select | undefined;
  /** -1, the default: the return value; 0 and up: that argument. `payload` wins. */
  readonly payloadIndex?: number | undefined;
  /** Which calls make an event: a function of the call, or an expression (`#result != null`). Default: all. */
  readonly when?: Select | undefined;
  /** The record key: a function of the call, or an expression. Default: the event id. */
  readonly key?: Select | undefined;
  /** Headers of the record by their names, each a function of the call or an expression; null and undefined are left out. */
  readonly headers?: Readonly<Record<string, Select>> | undefined;
  /** Default: AFTER_RETURNING. */
  readonly phase?: Phase | undefined;
  /** `last`: the last argument is a callback in Node's form, the error first; what follows the error is the result. */
  readonly callback?: 'last' | undefined;
  /** The call fails with the event's error instead of going on without the event. Default: false. */
  readonly failOnError?: boolean | undefined;
  /**
   * The event is stored in the transaction of the call. Goes with phase AFTER_RETURNING only, and implies `failOnError`: an
   * event that cannot be stored fails the transaction.
   */
  readonly outbox?: OutboxFields<Select> | undefined;
  /** The event is sent when the transaction of the call has committed, and not at all when it has not. Default: false. */
  readonly afterCommit?: boolean | undefined;
  /** Rules for personal data in payloads of this event type, in the forms of `svc.pii.fields`; `{ type: 'EMAIL' }` for the whole. */
  readonly pii?: Pii | undefined;
}

export const targetDefaults = {
  severity: 'INFO',
  payloadIndex: -1,
  phase: 'AFTER_RETURNING',
  failOnError: false,
  afterCommit: false,
} as const satisfies TargetFields<never>;

/** What validation, documentation and the JSON Schema know about a field. */
export interface TargetField extends Pick<Row, 'orFunction' | 'values' | 'min' | 'max' | 'format'> {
  readonly name: keyof TargetFields<never> | 'module' | 'function' | 'params';
  readonly type: 'string' | 'enum' | 'integer' | 'boolean' | 'list' | 'rules' | 'headers' | 'outbox';
  readonly required?: true;
  /** Not a field of a target in code, which has its function. */
  readonly configuredOnly?: true;
  readonly default?: string | number | boolean | undefined;
}

const expression = { type: 'string', format: 'text', orFunction: true } as const;

/** As the options: the comment of each is its text in docs, JSON Schema and types. */
const rows: Readonly<Record<TargetField['name'], Omit<TargetField, 'name'>>> = {
  /** A path relative to the configuration file (`./src/orders.ts`), a package name, or a `#import`. */
  module: { type: 'string', required: true, configuredOnly: true, format: 'text' },
  /** Which function: `createOrder`, `default`, `OrderService.prototype.create`, `OrderService.create`, `repo.save`, `createRepository().insert`. */
  function: { type: 'string', required: true, configuredOnly: true, format: 'text' },
  /** Event type in the envelope. Default: the path of the function, as in `OrderService.create`. */
  eventType: { type: 'string', format: 'text' },
  /** Severity in the envelope. */
  severity: { type: 'enum', values: severities, default: targetDefaults.severity },
  /** Topic instead of `svc.broker.topic`. */
  topic: { type: 'string', format: 'topic' },
  /** Expression for the payload, such as `#result` or `#args[0].email`. Default: what the function returns. */
  payload: expression,
  /** Payload by position instead: 0 is the first argument, -1 the returned value. */
  payloadIndex: { type: 'integer', min: -1, max: 254, default: targetDefaults.payloadIndex },
  /** Expression for which calls make an event, such as `#result != null`. The others are counted as skipped. Default: all. */
  when: expression,
  /** Expression for the record key. Default: the event id. */
  key: expression,
  /** Headers of the record beside those of svc, each an expression: `{ tenant: "#args[0].tenant" }`. They go out in clear. A value of null is left out. */
  headers: { type: 'headers' },
  /** When the event is made: before the call, after it succeeded, or after it ended either way. */
  phase: { type: 'enum', values: phases, default: targetDefaults.phase },
  /** The function ends with a call of its last argument, the error first, as `charge(x, (error, receipt) => …)`: the event is made then, and `#result` is what follows the error. Default: it ends when it returns or its promise settles. */
  callback: { type: 'enum', values: ['last'] },
  /** Lets the call fail when its event cannot be published. */
  failOnError: { type: 'boolean', default: targetDefaults.failOnError },
  /** Stores the event in the transaction of the call, from where it is sent: `{ aggregateType: Order, aggregateId: "#result.id" }`. The aggregate id, an expression, is the record key too where `key` is not given. `result: transaction` takes for `#result` what the transaction gives back that the function opens itself, or an ORM for it. Implies `failOnError`; needs `svc.outbox.enabled`, and phase AFTER_RETURNING. `false` is none. */
  outbox: { type: 'outbox' },
  /** Sends the event, without an outbox, when the transaction of the call has committed, and not at all when it has not. */
  afterCommit: { type: 'boolean', default: targetDefaults.afterCommit },
  /** Names of the parameters for expressions, where the source does not tell (minified code, packages). */
  params: { type: 'list', configuredOnly: true, format: 'text' },
  /** Rules for the payload of this event type, as in `svc.pii.fields`, before which they go; or `{ type: EMAIL, strategy: MASK }` for the whole payload, as with `payload: "#newEmail"`. */
  pii: { type: 'rules' },
};

/** The fields of one entry of `svc.targets`. */
export const targetFields: readonly TargetField[] = Object.entries(rows).map(([name, row]) => ({
  name: name as TargetField['name'],
  ...row,
}));
