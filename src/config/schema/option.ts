import { readTrustedProxy, trustedProxyForm } from '../../ground/addresses.ts';
import { nodeNet } from '../../ground/builtins.ts';
import { topicNameForm, topicNamePattern } from '../../ground/event-fields.ts';
import { minTokenLength } from '../../ground/management.ts';

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
const maxTimerMs = 2_147_483_647;

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

export interface Format {
  /** Also in the JSON Schema, so no flags. */
  readonly pattern: RegExp;
  /** What the pattern cannot say. */
  readonly check?: (text: string) => boolean;
  /** Ends the sentence "topic …". */
  readonly says: string;
}

const headerName = /^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/;

/** The forms that strings can be asked to have. */
export const formats = {
  text: { pattern: /[^\s]/, says: 'must not be empty' },
  topic: {
    pattern: topicNamePattern,
    says: `must be a topic name that Kafka accepts: ${topicNameForm}`,
  },
  'host-and-port': {
    pattern: /^(\[[0-9A-Fa-f:.]+\]|[^\s:/@]+):[0-9]{1,5}$/,
    check: (text) => isPort(text.slice(text.lastIndexOf(':') + 1)),
    says: 'must be host:port with a port from 1 to 65535, without a protocol',
  },
  'name-and-value': {
    pattern: /^[A-Za-z]+=[!-~]+$/,
    says: 'must be name=value: letters, and visible ASCII characters without spaces',
  },
  // A line end is what a key or certificate has that stands in the place of its file.
  path: { pattern: /^[^\0\n\r]*[^\s\0][^\0\n\r]*$/, says: 'must be a path' },
  'header-name': { pattern: headerName, says: 'must be the name of an HTTP header' },
  'actor-source': {
    pattern: /^(header:[A-Za-z0-9!#$%&'*+.^_`|~-]+|(baggage|request):[^\s]+)$/,
    says: 'must be header:<name>, baggage:<key> or request:<path of a property>',
  },
  'trusted-proxy': {
    pattern: /^(unix|[0-9A-Fa-f:.]+(\/[0-9]{1,3})?)$/,
    check: (text) => readTrustedProxy(text) !== undefined,
    says: `must be ${trustedProxyForm}`,
  },
  'listen-address': {
    pattern: /^[0-9A-Za-z:._-]+$/,
    check: (text) => nodeNet().isIP(text) !== 0 || (!text.includes(':') && !/^[0-9.]+$/.test(text)),
    says: 'must be an IP address or a host name, without a port',
  },
  token: {
    pattern: /^[!-~]+$/,
    says: 'must be visible ASCII characters without spaces, as a bearer token is',
  },
  'management-token': {
    pattern: new RegExp(`^[!-~]{${minTokenLength},}$`),
    says: `must be ${minTokenLength} or more visible ASCII characters without spaces: shorter ones can be guessed`,
  },
  url: {
    pattern: /^https?:\/\/[^\s]+$/,
    check: isBareUrl,
    says: 'must be an http or https URL, without user and password',
  },
  'uri-reference': {
    // RFC 3986: without a scheme, no colon in the first part of the path.
    pattern:
      /^(?=.)([A-Za-z][A-Za-z0-9+.-]*:|(?![^/?#]*:))(\/\/([A-Za-z0-9._~!$&'()*+,;=:%-]*@)?\[[0-9A-Fa-f:.]+\](:[0-9]*)?(?=[/?#]|$))?([A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*(\?([A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*)?(#([A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*)?$/,
    says: 'must be a URI-reference (RFC 3986), such as https://example.com/orders or /orders, other characters percent-encoded',
  },
  'datasource-url': {
    // Not `sqlite://name`: a host for some, a path for others. A database in memory is seen by its own connection only.
    pattern:
      /^((postgres|postgresql|mysql|mariadb):\/\/[^\s]+|sqlite:(?!\/\/[^/]|:memory:)[^\0\n\r]*[^\s\0])$/,
    check: (text) => text.startsWith('sqlite:') || URL.canParse(text),
    says: 'must be a URL that begins with postgres://, postgresql://, mysql:// or mariadb://, special characters of the password percent-encoded, or sqlite: and the path of a file',
  },
  table: {
    pattern: /^[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?$/,
    says: 'must be the name of a table, with or without its schema and a dot: each of 1 to 63 letters, digits and _, and no digit first',
  },
} as const satisfies Record<string, Format>;

export type FormatName = keyof typeof formats;

/** True for what stands in the form that is asked for. */
export function hasFormat(name: FormatName, text: string): boolean {
  const format: Format = formats[name];
  return format.pattern.test(text) && (format.check?.(text) ?? true);
}

function isBareUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { username, password } = new URL(text);
  return username === '' && password === '';
}

function isPort(text: string): boolean {
  const port = Number(text);
  return port >= 1 && port <= 65_535;
}
