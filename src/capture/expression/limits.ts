/** Characters of an expression's text (UTF-16 units). */
export const maxTextLength = 1024;

/** Expressions inside each other: brackets, braces, operands of `!` and `-`, branches of `?:`. Bounds the parser's stack. */
export const maxDepth = 24;

/** Nodes of the syntax tree: each name, property, literal, operator, call. */
export const maxNodes = 256;

/** Elements that the projections and selections of one evaluation may visit, all together. */
export const maxProjectedElements = 10_000;

/** Characters of a string that an expression makes with `+` or `join`: projections could double one without end. */
export const maxMadeStringLength = 1_048_576;
