/** Where in a file's text a wrapper has to go. Offsets are JavaScript string indices. */
export type Place = Form & {
  /** Of what a factory returned: its definition stands here, and not in the factory, which a bundler inlined. */
  readonly isReturned?: true;
};

type Form =
  /** A hoisted function: its binding is assigned at the top of its block. */
  | { readonly form: 'binding'; readonly at: number; readonly name: string }
  /** `export default function () {}`: gets a name first, so that it stays hoisted. */
  | { readonly form: 'nameless'; readonly at: number; readonly nameAt: number }
  | ValuePlace
  /** At the end of an ES module: what its text does not show is there when it has run. */
  | {
      readonly form: 'late';
      readonly at: number;
      readonly name: string;
      readonly path: readonly string[];
      /** The word `default` in `export default Stripe`, which is to export the name and not its value of that moment. */
      readonly standardAt?: number;
    }
  /** A class method: replaced before anything else that the class runs, and so before any decorator sees it. */
  | { readonly form: 'method'; readonly at: number; readonly key: string; readonly isStatic: boolean };

/** Around an expression. */
export interface ValuePlace {
  readonly form: 'value';
  readonly start: number;
  readonly end: number;
  /** Leads from the expression's value to the function; empty when it is the function. */
  readonly path: readonly string[];
  /** The name that the function would have had without a call around it. */
  readonly name: string | undefined;
  /** The statement ends here without a semicolon, which a call there would need. */
  readonly open: boolean;
}

/** A target's function in a file. */
export interface Found {
  readonly place: Place;
  /** '' for a parameter that is destructured or takes the rest; `undefined` when the text does not show the function. */
  readonly parameterNames: readonly string[] | undefined;
  /** The function whose parameters these are. */
  readonly parametersOf?: { readonly start: number; readonly end: number } | undefined;
  /** Positions of the parameters with a default. */
  readonly defaulted?: readonly number[] | undefined;
  /** The function itself, or the factory, where the text shows it. */
  readonly shown?: { readonly start: number; readonly end: number } | undefined;
}

/** Why a target has no place in a file, in words for the person who wrote the target. */
export interface Problem {
  readonly problem: string;
}

/** A getter may open a connection when it is first used, so nobody but the application runs it. */
export function behindGetter(getter: string, rest: string): string {
  return `${rest} is behind the getter ${getter}, which svc does not run: name the function where it is defined`;
}

export function isProblem(value: object): value is Problem {
  return 'problem' in value;
}

/** What `export default function () {}` is called within its file. */
export const givenName = '__svcDefault';
