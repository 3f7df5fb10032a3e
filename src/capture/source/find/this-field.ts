import type { Expression, Node } from 'oxc-parser';
import { argument, bare, isClass, isNothing, memberPath, propertyOf, stringOf, walk } from './syntax.ts';

/**
 * The value that code gives to `this.key`: `this.key = …`, `_define_property(this, 'key', …)` (swc, Babel),
 * `__publicField(this, 'key', …)` (esbuild), `Object.defineProperty(this, 'key', { value: … })` (tsc).
 */
export function thisField(body: readonly Node[], key: string): Expression | undefined {
  for (const node of walk(body, ownsThis)) {
    const found = given(node, key);
    if (found) return found;
  }
  return undefined;
}

function given(node: Node, key: string): Expression | undefined {
  const value = givenValue(node, key);
  // `_define_property(this, 'key', void 0)`: announced here, given further down.
  return value && isNothing(value) ? undefined : value;
}

function givenValue(node: Node, key: string): Expression | undefined {
  if (node.type === 'AssignmentExpression')
    return memberPath(node.left) === `this.${key}` ? node.right : undefined;
  if (node.type !== 'CallExpression' || node.arguments.length !== 3) return undefined;
  const value = argument(node.arguments, 2);
  const isField =
    argument(node.arguments, 0)?.type === 'ThisExpression' && stringOf(argument(node.arguments, 1)) === key;
  if (!value || !isField) return undefined;
  return memberPath(node.callee) === 'Object.defineProperty' ? described(value) : value;
}

function described(descriptor: Expression): Expression | undefined {
  const object = bare(descriptor);
  return object.type === 'ObjectExpression' ? propertyOf(object, 'value') : undefined;
}

/** Inside of these `this` is another object. */
function ownsThis(node: Node): boolean {
  return node.type === 'FunctionExpression' || node.type === 'FunctionDeclaration' || isClass(node);
}
