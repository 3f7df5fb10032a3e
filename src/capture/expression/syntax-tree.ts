/** The parsed expression. `at` is the offset, in the text, of what a failure should point to. */
export type Node =
  | { readonly kind: 'literal'; readonly at: number; readonly value: string | number | boolean | null }
  | { readonly kind: 'variable'; readonly at: number; readonly name: string }
  | { readonly kind: 'element'; readonly at: number }
  | (Access & { readonly kind: 'property'; readonly name: string })
  | (Access & { readonly kind: 'index'; readonly key: Node })
  | (Access & { readonly kind: 'call'; readonly name: string; readonly args: readonly Node[] })
  | (Access & { readonly kind: 'project' | 'select'; readonly body: Node })
  | {
      readonly kind: 'map';
      readonly at: number;
      readonly keys: readonly string[];
      readonly values: readonly Node[];
    }
  | { readonly kind: 'list'; readonly at: number; readonly items: readonly Node[] }
  | { readonly kind: 'unary'; readonly at: number; readonly operator: '!' | '-'; readonly operand: Node }
  | {
      readonly kind: 'binary';
      readonly at: number;
      readonly operator: BinaryOperator;
      readonly left: Node;
      readonly right: Node;
    }
  | {
      readonly kind: 'conditional';
      readonly at: number;
      readonly test: Node;
      readonly yes: Node;
      readonly no: Node;
    };

interface Access {
  readonly at: number;
  readonly target: Node;
  /** `?.`: `null` when the target is null or undefined, instead of a failure. */
  readonly safe: boolean;
}

export type BinaryOperator =
  | '||'
  | '&&'
  | '??'
  | '?:'
  | '=='
  | '!='
  | '<'
  | '<='
  | '>'
  | '>='
  | '+'
  | '-'
  | '*'
  | '/'
  | '%';

interface FreeNames {
  /** Without `#`, each once, in the order of their first use. */
  readonly names: readonly string[];
  readonly hasProjections: boolean;
}

/** The names of an expression that the call must give a meaning to. */
export function freeNames(tree: Node): FreeNames {
  const names = new Set<string>();
  let hasProjections = false;
  const visit = (node: Node): void => {
    if (node.kind === 'variable') names.add(node.name);
    if (node.kind === 'project' || node.kind === 'select') hasProjections = true;
    for (const child of childrenOf(node)) visit(child);
  };
  visit(tree);
  return { names: [...names], hasProjections };
}

function childrenOf(node: Node): readonly Node[] {
  switch (node.kind) {
    case 'property':
      return [node.target];
    case 'index':
      return [node.target, node.key];
    case 'call':
      return [node.target, ...node.args];
    case 'project':
    case 'select':
      return [node.target, node.body];
    case 'map':
      return node.values;
    case 'list':
      return node.items;
    case 'unary':
      return [node.operand];
    case 'binary':
      return [node.left, node.right];
    case 'conditional':
      return [node.test, node.yes, node.no];
    default:
      return [];
  }
}
