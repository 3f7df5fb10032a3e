import type { FormatName } from './format.ts';

/**
 * - `integer`, `number`: within `min` and `max`, both accepted;
 * - `enum`: one of `values`, upper or lower case, or a name as `own-parts.ts` has them where there is `registeredBy`;
 * - `list`: of strings, each in `format` or one of `values`; a text with commas is taken apart;
 * - `rules`: rules for personal data (`pii-rules.ts`), `keys`: encryption keys (`pii-keys.ts`), `names`: of keys (`names.ts`).
 */
export type OptionType =
  | 'boolean'
  | 'integer'
  | 'number'
  | 'string'
  | 'enum'
  | 'list'
  | 'rules'
  | 'keys'
  | 'names';

export type OptionValue = boolean | number | string | readonly string[];

/** One configuration option: all that validation, documentation and the JSON Schema know about it. */
export interface Option {
  /** Full name as users write it: `svc.broker.request-timeout-ms`. */
  readonly name: string;
  readonly type: OptionType;
  /** Left out: unset. */
  readonly default?: OptionValue;
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
  readonly format?: FormatName;
  /** A function is accepted as well (from code, `.mjs` and `.ts`). */
  readonly orFunction?: true;
  /** A password or key: its value is in no message. */
  readonly secret?: true;
  /** Further environment variables, asked after the derived one. */
  readonly aliases?: readonly string[];
  /** A variable that belongs to the application as well: asked last of all, and only while that switch is true. */
  readonly shared?: { readonly variable: string; readonly switch: string };
  readonly description: string;
}

/** Longest wait of a Node timer: one more, and it fires at once. */
export const maxTimerMs = 2_147_483_647;

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
