import type { Class, Expression, Function as FunctionNode } from 'oxc-parser';

/**
 * How near a definition is to the module scope: 0 in it, 1 in a function that runs at once (the wrapper that tsx, UMD and
 * bundlers put around a module), 2 deeper.
 */
export type Tier = 0 | 1 | 2;

/** A hoisted function: its binding can be assigned at the top of its block. */
export interface DeclaredFunction {
  readonly kind: 'declaration';
  readonly name: string;
  readonly tier: Tier;
  readonly node: FunctionNode;
  /** Where a statement can be inserted that runs before everything else in the block. */
  readonly at: number;
  /** `if (x) function f() {}` of sloppy code: no statement can be inserted that sees it. */
  readonly isUnbraced?: true;
}

/** A value under a name: an initializer, the right side of an assignment, a default export, a class. */
export interface NamedValue {
  readonly kind: 'value';
  readonly name: string;
  readonly tier: Tier;
  readonly node: Expression | Class;
  /** The name that JavaScript gives to a nameless function here; `undefined` where it gives none. */
  readonly infers: string | undefined;
  /** `Order || (Order = {})`, as compilers write a namespace: no definition where there is a class or function of this name. */
  readonly isMerge?: true;
}

export type Definition = DeclaredFunction | NamedValue;

/** What one file says about its names. CommonJS exports are under `exports.name`, `module.exports` itself under `exports`. */
export interface Definitions {
  readonly byName: Map<string, Definition[]>;
  /** Members that helper calls give to a class, such as `_define_property(Name, 'field', value)`, under `Name.field`. */
  readonly helperMembers: Map<string, NamedValue>;
  /** Exported name to local name. */
  readonly aliases: Map<string, string>;
  /** Names that another module defines, with its specifier where the text tells it. */
  readonly foreign: Map<string, string | undefined>;
  /** Names that are taken out of a value (`const { create } = makeService()`), with the text of the value. */
  readonly parts: Map<string, string>;
  /** Specifiers of `export * from`. */
  readonly stars: string[];
  /** Ends of statements that rely on automatic semicolons: text appended there must bring its own. */
  readonly openEnds: Set<number>;
}

export function noDefinitions(): Definitions {
  return {
    byName: new Map(),
    helperMembers: new Map(),
    aliases: new Map(),
    foreign: new Map(),
    parts: new Map(),
    stars: [],
    openEnds: new Set(),
  };
}
