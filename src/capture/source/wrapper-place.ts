/** Where a wrapper goes in a file's text. Offsets are JavaScript string indices. */
export type Place = Form & {
  /** A bundler inlined the factory: this is the definition of what it returned. */
  readonly isReturned?: true;
};

type Form =
  /** A hoisted function: its binding is assigned at the top of its block. */
  | { readonly form: 'binding'; readonly at: number; readonly name: string }
  /** `export default function () {}`: gets a name first, so that it stays hoisted. */
  | { readonly form: 'nameless'; readonly at: number; readonly nameAt: number }
  | ValuePlace
  /** At the end of an ES module, for a function that only running the module creates. */
  | {
      readonly form: 'late';
      readonly at: number;
      readonly name: string;
      readonly path: readonly string[];
      /** The word `default` in `export default Stripe`, which must export the binding rather than its current value. */
      readonly standardAt?: number;
    }
  /** A class method: replaced before anything else in the class runs, so that decorators see the wrapper. */
  | { readonly form: 'method'; readonly at: number; readonly key: string; readonly isStatic: boolean };

interface ValuePlace {
  readonly form: 'value';
  readonly start: number;
  readonly end: number;
  /** Leads from the expression's value to the function; empty if the value is the function. */
  readonly path: readonly string[];
  /** The name that JavaScript would infer without a call around the function. */
  readonly name: string | undefined;
  /** The statement ends here without a semicolon, which an appended call needs. */
  readonly open: boolean;
}

export interface Found {
  readonly place: Place;
  /** '' for a destructured or rest parameter; `undefined` if the text does not show the function. */
  readonly parameterNames: readonly string[] | undefined;
  readonly parametersOf?: { readonly start: number; readonly end: number } | undefined;
  readonly defaulted?: readonly number[] | undefined;
  /** The function, or its factory, if the text shows it. */
  readonly shown?: { readonly start: number; readonly end: number } | undefined;
}

/** Why a target has no place in a file, in words for the author of the target. */
export interface Problem {
  readonly problem: string;
}

/** Only the application may run a getter: it may open a connection on first use. */
export function behindGetter(getter: string, rest: string): string {
  return `${rest} is behind the getter ${getter}, which svc does not run: name the function where it is defined`;
}

export function isProblem(value: object): value is Problem {
  return 'problem' in value;
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : 'unknown error';
}
