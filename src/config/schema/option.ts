import type { FormatName } from './format.ts';

/** What an option takes, and how it is written: a row of the tables beside this file. */
export interface Row {
  /**
   * - `integer`, `number`: within `min` and `max`, both accepted;
   * - `enum`: one of `values`, upper or lower case, or a name as `own-parts.ts` has them where there is `registeredBy`;
   * - `list`: of strings, each in `format` or one of `values`; a text with commas is taken apart;
   * - `rules`: rules for personal data (`pii-rules.ts`), `keys`: encryption keys (`pii-keys.ts`), `names`: of keys (`names.ts`).
   */
  readonly type: 'boolean' | 'integer' | 'number' | 'string' | 'enum' | 'list' | 'rules' | 'keys' | 'names';
  /** Left out: unset. */
  readonly default?: boolean | number | string | readonly string[] | undefined;
  /** In words, where the default is no fixed value. */
  readonly defaultText?: string;
  readonly unit?: 'ms' | 's' | 'days' | 'events' | 'sends' | 'rows' | 'files' | 'bytes' | 'events/s';
  readonly min?: number;
  readonly max?: number;
  /** The message names both bounds, as the specification does. */
  readonly namesBothBounds?: true;
  readonly values?: readonly string[];
  /** The function with which an application adds values of its own. */
  readonly registeredBy?: string;
  /** Values that will be accepted by a later version, and why not by this one. */
  readonly laterValues?: Readonly<Record<string, string>>;
  /** Form of a string, or of each item of a list. */
  readonly format?: FormatName | undefined;
  /** A function is accepted as well (from code, `.mjs` and `.ts`). */
  readonly orFunction?: true;
  /** A password or key: its value is in no message. */
  readonly secret?: true;
  /** Further environment variables, asked after the derived one. */
  readonly aliases?: readonly string[];
  /** A variable that belongs to the application as well: asked last of all, and only while that switch is true. */
  readonly shared?: { readonly variable: string; readonly switch: string };
}

/**
 * Options by their names as users write them: `svc.broker.request-timeout-ms`. The comment of each is its text in docs, JSON
 * Schema and types (`scripts/option-words.ts`).
 */
export type Rows = Readonly<Record<string, Row>>;

/** One configuration option: all that the check knows about it. */
export interface Option extends Row {
  readonly name: string;
}

type More = Omit<Row, 'type'>;
type None = Record<never, never>;

export const flag = <const Default extends boolean | undefined, const M extends More = None>(
  byDefault: Default,
  more?: M,
) => ({ type: 'boolean', default: byDefault, ...(more as M) }) as const;

export const integer = <const M extends More = None>(min: number, max: number, more: M) =>
  ({ type: 'integer', min, max, ...more }) as const;

/** Longest wait of a Node timer: one more, and it fires at once. */
export const maxTimerMs = 2_147_483_647;

/** A wait, as long as a timer of Node can. */
export const ms = (min: number, byDefault: number) =>
  integer(min, maxTimerMs, { unit: 'ms', default: byDefault });

export const text = <const M extends More = None>(format: FormatName, more?: M) =>
  ({ type: 'string', format, ...(more as M) }) as const;

export const secret = <const M extends More = None>(format?: FormatName, more?: M) =>
  ({ type: 'string', format, secret: true, ...(more as M) }) as const;

export const oneOf = <
  const Values extends readonly string[],
  const Default extends string | undefined = undefined,
  const M extends More = None,
>(
  values: Values,
  byDefault?: Default,
  more?: M,
) => ({ type: 'enum', values, default: byDefault as Default, ...(more as M) }) as const;

export const list = <const M extends More = None>(
  format: FormatName,
  byDefault: readonly string[],
  more?: M,
) => ({ type: 'list', format, default: byDefault, ...(more as M) }) as const;

/** `svc.broker.request-timeout-ms` -> `SVC_BROKER_REQUEST_TIMEOUT_MS` */
export function variableOf(name: string): string {
  return name.replace(/[.-]/g, '_').toUpperCase();
}

/** `request-timeout-ms` -> `requestTimeoutMs` */
export function camelCase(text: string): string {
  return text.replace(/-([a-z0-9])/g, (_, next: string) => next.toUpperCase());
}

/** `requestTimeoutMs` -> `request-timeout-ms` */
export function kebabCase(text: string): string {
  return text.replace(/[A-Z]/g, (capital) => `-${capital.toLowerCase()}`);
}

/** `svc.broker.request-timeout-ms` -> `requestTimeoutMs`, as messages name it. */
export function shortName(name: string): string {
  return camelCase(name.slice(name.lastIndexOf('.') + 1));
}
