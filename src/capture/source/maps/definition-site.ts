import type { Node, Program } from 'oxc-parser';
import { children, isFunction } from '../find/syntax.ts';
import type { Found } from '../wrapper-place.ts';

/** Where a definition stands in its source. All offsets are those of the source's text. */
export interface Site {
  /** What the place is made for: the function itself, or a value that the text does not show to be one. */
  readonly kind: 'function' | 'value';
  /** The first character of the statement or member that defines it. */
  readonly start: number;
  readonly nameAt: number;
  readonly name: string;
  /** Where the head of the definition ends, and its body begins. */
  readonly bodyAt: number;
  readonly end: number;
  /** Leads from the value to the function. */
  readonly path: readonly string[];
}

/** The nodes from the program down to the smallest ones that hold the range; of two with one range, the outer one is first. */
export function chainTo(program: Program, start: number, end: number): Node[] {
  const chain: Node[] = [program];
  for (let next: Node | undefined = program; next !== undefined; ) {
    next = children(next).find(
      (child) => child.start <= start && child.end >= end && child.end > child.start,
    );
    if (next !== undefined) chain.push(next);
  }
  return chain;
}

/** Where the source defines what was found in it. */
export function siteOf(program: Program, { place, shown }: Found): Site | undefined {
  const isIn =
    place.form !== 'value' ||
    (shown !== undefined &&
      (place.path.length === 0
        ? shown.start === place.start && shown.end === place.end
        : shown.start >= place.start && shown.end <= place.end));
  if (isIn && shown === undefined) return undefined;
  const { start, end } =
    isIn && shown !== undefined ? shown : place.form === 'value' ? place : { start: 0, end: 0 };
  const chain = chainTo(program, start, end);
  const at = chain.findIndex(
    (node) => node.start === start && node.end === end && (!isIn || isFunction(node)),
  );
  const node = chain[at];
  if (node === undefined) return undefined;
  const body = isFunction(node) ? node.body : undefined;
  const path = !isIn && place.form === 'value' ? place.path : [];
  const base = {
    kind: isIn ? 'function' : 'value',
    bodyAt: body?.start ?? node.start,
    end: node.end,
    path,
  } as const;
  if (node.type === 'FunctionDeclaration' && node.id)
    return { ...base, start: statementStart(chain, at), nameAt: node.id.start, name: node.id.name };
  for (let above = at - 1; above > 0; above--) {
    const named = nameIn(chain[above] as Node);
    if (named !== undefined)
      return { ...base, start: statementStart(chain, above), nameAt: named.start, name: nameOf(named) };
    // Behind a function, or in a block, there is no name that would be this definition's.
    const parent = chain[above] as Node;
    if (isFunction(parent) || /Statement$|^Program$/.test(parent.type)) break;
  }
  return { ...base, start: statementStart(chain, at), nameAt: node.start, name: '' };
}

/** The node that names what is defined here. */
export function nameIn(node: Node): Node | undefined {
  switch (node.type) {
    case 'MethodDefinition':
    case 'PropertyDefinition':
    case 'AccessorProperty':
    case 'Property':
      return node.key;
    case 'VariableDeclarator':
      return node.id;
    case 'AssignmentExpression':
      return node.left.type === 'MemberExpression' ? node.left.property : node.left;
    default:
      return undefined;
  }
}

function nameOf(node: Node): string {
  return node.type === 'Identifier' || node.type === 'PrivateIdentifier' ? node.name : '';
}

/** With `export`, `const`, `static` and the like. */
function statementStart(chain: readonly Node[], at: number): number {
  let start = (chain[at] as Node).start;
  for (let above = at - 1; above > 0; above--) {
    const { type, start: next } = chain[above] as Node;
    const isFirst =
      type !== 'VariableDeclaration' ||
      (chain[above] as { declarations: Node[] }).declarations[0] === chain[above + 1];
    if (!/^(VariableDeclaration|Export\w+Declaration|ExpressionStatement)$/.test(type) || !isFirst) break;
    start = next;
  }
  return start;
}
