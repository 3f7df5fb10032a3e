/** Characters of an expression's text (UTF-16 units). */
export const maxTextLength = 1024;

/** Expressions inside each other: brackets, braces, operands of `!` and `-`, branches of `?:`. Bounds the parser's stack. */
export const maxDepth = 24;

/** Nodes of the syntax tree: each name, property, literal, operator, call. */
export const maxNodes = 256;

/** Elements that the projections and selections of one evaluation may visit, all together. */
export const maxProjectedElements = 10_000;

/** From the first elements that one evaluation visits. Such long work is only met where a list and the values around it are large. */
export const maxEvaluationMs = 1_000;

/** Elements of a list that is searched, joined or cut. Sparse arrays can be far longer than memory, and take as long to go through. */
export const maxListLength = 10_000_000;

/** Characters of a string that an expression makes with `+` or `join`: projections could double one without end. */
export const maxMadeStringLength = 1_048_576;

/** Parts that `split` makes of one string. */
export const maxMadeParts = 1_048_576;
