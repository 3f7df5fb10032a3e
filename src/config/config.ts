// config/: what can be set (`schema/`), what of it is wrong (`check/`), and where it comes from (`read/`).

import type { PathRule } from '../ground/pii-rule.ts';
import type { EncryptionKeyConfig, Names } from './check/validate.ts';
import type { OptionTable, Row } from './schema/schema.ts';
import type { TargetConfig } from './schema/target.ts';

/** The whole configuration, checked, with its defaults. Paths are absolute. Durations are milliseconds. */
export interface Config extends OptionValues {
  /** The valid ones of `svc.targets`. */
  readonly targets: readonly TargetConfig[];
  /** Folder that relative paths start from: that of the configuration file, else the working directory. */
  readonly baseDir: string;
  /** The configuration file that was read. */
  readonly file: string | undefined;
}

/** What the list of options says, each at its place: `svc.broker.client-id` at `broker.clientId`. */
export type OptionValues = Nested<Omit<ByPath, keyof FoundByPath> & FoundByPath>;

/** Options that have a value although nothing is given and there is no default. */
interface FoundByPath {
  readonly 'broker.client': NonNullable<ByPath['broker.client']>;
  /** Empty only when there are problems, no configuration, or svc is off. */
  readonly 'broker.topic': string;
  /** `null`: not configured; `context/source.ts` knows where else to look. */
  readonly 'service.name': string | null;
  readonly 'service.version': string | null;
  readonly 'pii.crypto.keys': readonly EncryptionKeyConfig[];
}

type ByPath = { readonly [Name in keyof OptionTable as PathOf<Name>]: ValueOf<OptionTable[Name]> };

// Inferred, so that messages of the compiler show the value and not how it is come by.
type ValueOf<One extends Row> =
  | GivenOf<One>
  | (One extends { readonly default: NonNullable<unknown> } ? never : undefined) extends infer Value
  ? Value
  : never;

/** What an option may be set to in code, checked. */
export type GivenOf<One extends Row> =
  | TypesOf<One>[One['type']]
  | (One extends { readonly orFunction: true } ? (request: unknown) => unknown : never) extends infer Value
  ? Value
  : never;

interface TypesOf<One extends Row> {
  readonly boolean: boolean;
  readonly integer: number;
  readonly number: number;
  readonly string: string;
  readonly enum:
    | NonNullable<One['values']>[number]
    | (One extends { readonly registeredBy: string } ? string & {} : never);
  readonly list: readonly string[];
  readonly rules: readonly PathRule[];
  readonly keys: readonly EncryptionKeyConfig[];
  readonly names: Names;
}

/** `svc.broker.client-id` -> `broker.clientId` */
type PathOf<Name> = Name extends `svc.${infer Rest}` ? Camel<Rest> : Camel<Name>;

export type Camel<Text> = Text extends `${infer First}-${infer Rest}`
  ? `${First}${Camel<Capitalize<Rest>>}`
  : Text;

/** `{ 'broker.clientId': string }` -> `{ broker: { clientId: string } }` */
export type Nested<Values> = {
  readonly [Path in keyof Values as Path extends `${infer Section}.${string}`
    ? Section
    : Path]: Path extends `${infer Section}.${string}`
    ? Nested<{
        [Each in keyof Values as Each extends `${Section}.${infer Rest}` ? Rest : never]: Values[Each];
      }>
    : Values[Path];
};
