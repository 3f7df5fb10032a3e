import type { Node } from 'oxc-parser';
import type { Definitions } from './definitions.ts';

/** Notes what import and export statements say about names. */
export function scanExport(node: Node, found: Definitions): void {
  switch (node.type) {
    case 'ImportDeclaration':
      for (const specifier of node.specifiers) found.foreign.set(specifier.local.name, node.source.value);
      break;
    case 'ExportAllDeclaration':
      if (node.exported) found.foreign.set(nameOf(node.exported), node.source.value);
      else found.stars.push(node.source.value);
      break;
    case 'ExportNamedDeclaration':
      for (const specifier of node.specifiers) {
        const exported = nameOf(specifier.exported);
        const local = nameOf(specifier.local);
        if (node.source) found.foreign.set(exported, node.source.value);
        else if (local !== exported) found.aliases.set(exported, local);
      }
      break;
    case 'ExportDefaultDeclaration': {
      const value = node.declaration;
      if (value.type === 'Identifier') found.aliases.set('default', value.name);
      else if ('id' in value && value.id?.type === 'Identifier') found.aliases.set('default', value.id.name);
      break;
    }
    case 'TSExportAssignment':
      if (node.expression.type === 'Identifier') found.aliases.set('default', node.expression.name);
      break;
    default:
  }
}

function nameOf(node: Node): string {
  if (node.type === 'Identifier') return node.name;
  return node.type === 'Literal' ? String(node.value) : '';
}
