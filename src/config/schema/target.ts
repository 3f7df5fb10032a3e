import { type Severity, severities } from '../../ground/event-fields.ts';
import type { PathRule, PiiRules } from '../../ground/pii-rule.ts';
import type { Row } from './schema.ts';

/** The argument of a function that replaces an expression. */
interface CallValues {
  readonly args: readonly unknown[];
  readonly result: unknown;
  readonly self: unknown;
}

/** An expression, or (from code, `.mjs` and `.ts`) a function. */
export type Expression = string | ((call: CallValues) => unknown);

type Fields = TargetFields<Expression, readonly PathRule[]>;

/** `undefined`: not given, and no default. */
type CheckedFields = {
  readonly [Name in keyof Fields]-?: Name extends keyof typeof targetDefaults
    ? NonNullable<Fields[Name]>
    : Fields[Name] | undefined;
};

/** A valid entry of `svc.targets`, with defaults. */
export interface TargetConfig extends CheckedFields {
  /** `src/orders.ts#createOrder`, as in reports and logs. */
  readonly id: string;
  /** Position in the list, from 0. */
  readonly index: number;
  /** As configured, relative to `Config.baseDir`. */
  readonly module: string;
  readonly function: string;
  readonly params: readonly string[] | undefined;
  /** For messages: `svc.config.yaml:12`. */
  readonly where: string;
}

const phases = ['BEFORE', 'AFTER_RETURNING', 'AFTER'] as const;
/** When a captured function makes its event: before it runs, after it succeeded, or after it ended either way. */
export type Phase = (typeof phases)[number];

/** The transactional outbox of a target: svc stores its events in the transaction of the call, and sends them from there. */
interface OutboxFields<Select> {
  /** Type of the aggregate, such as `Order`. */
  readonly aggregateType: string;
  /**
   * Id of the aggregate: a function of the call, or an expression (`#result.id`). Events of one aggregate keep their order. It
   * is also the record key, unless `key` is set.
   */
  readonly aggregateId: Select;
  /**
   * `transaction`: `#result` is the value that the function's own transaction returns (the callback of `transaction(…)`), or
   * that an ORM saves in its own. Default: the return value of the function.
   */
  readonly result?: 'transaction' | undefined;
}

/** The fields of a target, in the configuration and in code. `Select` is an expression or a function of the call. */
export interface TargetFields<Select, Pii = PiiRules> {
  /** Default: `ClassName.methodName`, or the function's name. */
  readonly eventType?: string | undefined;
  /** Default: INFO. */
  readonly severity?: Severity | undefined;
  /** Default: `svc.broker.topic`. */
  readonly topic?: string | undefined;
  /** A function of the call, or an expression (`#result.orderId`). Default: the return value. */
  readonly payload?: Select | undefined;
  /** -1, the default: the return value. 0 and up: that argument. `payload` takes precedence. */
  readonly payloadIndex?: number | undefined;
  /** Selects the calls that make an event: a function of the call, or an expression (`#result != null`). Default: all. */
  readonly when?: Select | undefined;
  /** The record key: a function of the call, or an expression. Default: the event id. */
  readonly key?: Select | undefined;
  /** Headers of the record by name, each a function of the call or an expression. svc omits null and undefined. */
  readonly headers?: Readonly<Record<string, Select>> | undefined;
  /** Default: AFTER_RETURNING. */
  readonly phase?: Phase | undefined;
  /** `last`: the last argument is a Node callback, with the error first. The value after the error is the result. */
  readonly callback?: 'last' | undefined;
  /** Fails the call with the event's error, instead of continuing without the event. Default: false. */
  readonly failOnError?: boolean | undefined;
  /**
   * Stores the event in the transaction of the call. Needs phase AFTER_RETURNING and implies `failOnError`: an event that can't
   * be stored fails the transaction.
   */
  readonly outbox?: OutboxFields<Select> | undefined;
  /** Sends the event after the transaction of the call has committed, and drops it otherwise. Default: false. */
  readonly afterCommit?: boolean | undefined;
  /** Rules for personal data in payloads of this event type, as in `svc.pii.fields`. `{ type: 'EMAIL' }` covers the whole payload. */
  readonly pii?: Pii | undefined;
}

export const targetDefaults = {
  severity: 'INFO',
  payloadIndex: -1,
  phase: 'AFTER_RETURNING',
  failOnError: false,
  afterCommit: false,
} as const satisfies TargetFields<never>;

/** A field as validation, documentation and JSON Schema need it. */
export interface TargetField extends Pick<Row, 'orFunction' | 'values' | 'min' | 'max' | 'format'> {
  readonly name: keyof TargetFields<never> | 'module' | 'function' | 'params';
  readonly type: 'string' | 'enum' | 'integer' | 'boolean' | 'list' | 'rules' | 'headers' | 'outbox';
  readonly required?: true;
  /** Not available for targets in code. */
  readonly configuredOnly?: true;
  readonly default?: string | number | boolean | undefined;
}

const expression = { type: 'string', format: 'text', orFunction: true } as const;

/** The comment of each row is its text in documentation, JSON Schema and types. */
const rows: Readonly<Record<TargetField['name'], Omit<TargetField, 'name'>>> = {
  /** Path relative to the configuration file (`./src/orders.ts`), package name, or `#import`. */
  module: { type: 'string', required: true, configuredOnly: true, format: 'text' },
  /** Function to capture: `createOrder`, `default`, `OrderService.prototype.create`, `OrderService.create`, `repo.save`, `createRepository().insert`. */
  function: { type: 'string', required: true, configuredOnly: true, format: 'text' },
  /** Event type in the envelope. Default: the path of the function, such as `OrderService.create`. */
  eventType: { type: 'string', format: 'text' },
  /** Severity in the envelope. */
  severity: { type: 'enum', values: severities, default: targetDefaults.severity },
  /** Topic, instead of `svc.broker.topic`. */
  topic: { type: 'string', format: 'topic' },
  /** Expression for the payload, such as `#result` or `#args[0].email`. Default: the return value. */
  payload: expression,
  /** Payload by position: 0 is the first argument, -1 the return value. */
  payloadIndex: { type: 'integer', min: -1, max: 254, default: targetDefaults.payloadIndex },
  /** Expression that selects the calls that make an event, such as `#result != null`. Other calls count as skipped. Default: all calls. */
  when: expression,
  /** Expression for the record key. Default: the event id. */
  key: expression,
  /** Additional record headers, each an expression: `{ tenant: "#args[0].tenant" }`. They go out in clear. svc omits headers that are null. */
  headers: { type: 'headers' },
  /** When the event is made: before the call, after it succeeded, or after it ended either way. */
  phase: { type: 'enum', values: phases, default: targetDefaults.phase },
  /** `last`: the function ends when it calls its last argument with the error first, as in `charge(x, (error, receipt) => …)`. The event is made then, and `#result` is the value after the error. Default: the function ends when it returns or its promise settles. */
  callback: { type: 'enum', values: ['last'] },
  /** Fails the call if its event can't be published. */
  failOnError: { type: 'boolean', default: targetDefaults.failOnError },
  /** Stores the event in the transaction of the call: `{ aggregateType: Order, aggregateId: "#result.id" }`. The aggregate id, an expression, is also the record key unless `key` is set. With `result: transaction`, `#result` is the value that the function's own transaction returns, or that an ORM saves in its own. Implies `failOnError`. Needs `svc.outbox.enabled` and phase AFTER_RETURNING. `false` means no outbox. */
  outbox: { type: 'outbox' },
  /** Without an outbox: sends the event after the transaction of the call has committed, and drops it otherwise. */
  afterCommit: { type: 'boolean', default: targetDefaults.afterCommit },
  /** Parameter names for expressions, if the source doesn't show them (minified code, packages). */
  params: { type: 'list', configuredOnly: true, format: 'text' },
  /** Rules for the payload of this event type, before those of `svc.pii.fields`. `{ type: EMAIL, strategy: MASK }` covers the whole payload, for example with `payload: "#newEmail"`. */
  pii: { type: 'rules' },
};

/** The fields of one entry of `svc.targets`. */
export const targetFields: readonly TargetField[] = Object.entries(rows).map(([name, row]) => ({
  name: name as TargetField['name'],
  ...row,
}));
