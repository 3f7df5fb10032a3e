// config/: the options (`schema/`), their checks (`check/`) and their sources (`read/`).

import type { PathRule } from '../ground/pii-rule.ts';
import type { EncryptionKeyConfig, Names } from './check/check.ts';
import type { OptionTable, Row } from './schema/schema.ts';
import type { TargetConfig } from './schema/target.ts';

/** The checked configuration with defaults. Paths are absolute, durations are in milliseconds. */
export interface Config extends OptionValues {
  /** The valid entries of `svc.targets`. */
  readonly targets: readonly TargetConfig[];
  /** The base of relative paths: the folder of the configuration file, or else the working directory. */
  readonly baseDir: string;
  /** The configuration file. `undefined`: there is no file. */
  readonly file: string | undefined;
}

/** The options of the table as nested values: `svc.broker.client-id` at `broker.clientId`. */
export type OptionValues = Nested<Omit<ByPath, keyof FoundByPath> & FoundByPath>;

/** Options that always have a value, although they have no default. */
interface FoundByPath {
  readonly 'broker.client': NonNullable<ByPath['broker.client']>;
  /** Empty only if there are problems, there is no configuration, or svc is off. */
  readonly 'broker.topic': string;
  /** `null`: not configured. `context/source.ts` then looks elsewhere. */
  readonly 'service.name': string | null;
  readonly 'service.version': string | null;
  readonly 'pii.crypto.keys': readonly EncryptionKeyConfig[];
}

type ByPath = { readonly [Name in keyof OptionTable as PathOf<Name>]: ValueOf<OptionTable[Name]> };

// The `infer` makes compiler messages show the resulting type.
type ValueOf<One extends Row> =
  | GivenOf<One>
  | (One extends { readonly default: NonNullable<unknown> } ? never : undefined) extends infer Value
  ? Value
  : never;

/** The checked type of an option set in code. */
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
