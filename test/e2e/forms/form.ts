import type { Files } from '../support/run-app.ts';

/** `esm`, `cjs`: the module kind of the application. `package`: targets are packages of others in node_modules. */
export type FormKind = 'esm' | 'cjs' | 'package';

export interface FormTarget {
  /** Path of the function, as in the configuration. */
  readonly function: string;
  /** Default: the form's first file. */
  readonly module?: string;
  /** What events and payloads below go by. Default: `function`. */
  readonly name?: string;
  /** Further fields of the target. */
  readonly [field: string]: unknown;
}

/** One form of function: how it is written, how it is called, what must be published. */
export interface Form {
  readonly id: string;
  /** As the table in docs/capture.md has it. */
  readonly title: string;
  readonly kind: FormKind;
  /** Relative to the form's own folder; a leading `/` means the folder of the application. */
  readonly files: Files;
  readonly links?: Readonly<Record<string, string>>;
  readonly targets: readonly FormTarget[];
  /** A module whose default export (`module.exports` in CommonJS) makes the calls and gives back what they gave. */
  readonly call: string;
  /** What `call` gives back, with or without svc. */
  readonly returns: unknown;
  /** Events by the name of their target. */
  readonly events: Readonly<Record<string, number>>;
  /** Payloads by the name of their target, where they are more than a number of events. */
  readonly payloads?: Readonly<Record<string, readonly unknown[]>>;
  /** Record keys by the name of their target. */
  readonly keys?: Readonly<Record<string, readonly string[]>>;
  /** A form that cannot be captured: what the report says. Then `events` has zeros, and the application runs as ever. */
  readonly refused?: RegExp;
  /** Seconds-long waits are no part of a form: this is the version of Node below which it does not exist. */
  readonly since?: string;
}
