import type { Node } from './syntax-tree.ts';

export interface FreeNames {
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
