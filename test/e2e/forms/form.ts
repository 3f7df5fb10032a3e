import type { Files } from '../support/run-app.ts';

/** Which application a form is part of. Forms of one kind share a folder, a configuration and their processes. */
export type FormKind = keyof typeof formKinds;

export const formKinds = {
  esm: 'ES modules',
  cjs: 'CommonJS',
  package: 'Packages in an application of ES modules',
  'package-cjs': 'Packages in a CommonJS application',
  entry: 'Entry files',
  typescript: 'TypeScript that Node runs itself',
  unreachable: 'What cannot be captured',
} as const;

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
  /** As the table in docs/internals/capture.md has it, or docs/capture.md of what cannot be captured. */
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
  /** Headers that the targets add, by the name of their target. */
  readonly headers?: Readonly<Record<string, readonly Readonly<Record<string, string>>[]>>;
  /** A form that cannot be captured: what the log says about its targets. Then `events` has zeros. */
  readonly refused?: RegExp;
  /** What the report at the end of the process says about its targets. */
  readonly reported?: RegExp;
  /** What to do instead, for the table. */
  readonly wayRound?: string;
}
