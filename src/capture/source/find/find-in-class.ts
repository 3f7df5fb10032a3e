import type { Class, ClassElement, Expression } from 'oxc-parser';
import { didYouMean } from '../../../ground/nearest-names.ts';
import type { Problem } from '../wrapper-place.ts';
import { privateMethod } from './function-path.ts';
import { type AnyFunction, isFunction, keyOf } from './syntax.ts';
import { thisField } from './this-field.ts';

export type ClassMember =
  | { readonly kind: 'method'; readonly key: string; readonly isStatic: boolean; readonly shown: AnyFunction }
  | {
      readonly kind: 'field';
      readonly value: Expression;
      /** The name that a nameless function gets here. */
      readonly infers: string | undefined;
      readonly rest: readonly string[];
    };

/** Finds `prototype.create`, `create` or `prototype.repo.save` in the text of a class. */
export function findInClass(node: Class, name: string, path: readonly string[]): ClassMember | Problem {
  const isStatic = path[0] !== 'prototype';
  const [key, ...rest] = isStatic ? path : path.slice(1);
  if (key === undefined) return { problem: `${name}.prototype is not a function: name one of its methods` };
  const full = `${name}.${isStatic ? '' : 'prototype.'}${key}`;
  for (const member of node.body.body) {
    if (!('key' in member) || member.static !== isStatic || keyOf(member.key, member.computed) !== key)
      continue;
    if (member.type === 'MethodDefinition') {
      if (member.kind === 'get' || member.kind === 'set')
        return { problem: `${full} is a ${member.kind}ter, not a method` };
      if (member.kind === 'constructor') return { problem: `${full} is a constructor: name a method` };
      // Overloads and abstract methods have no body.
      if (!isFunction(member.value) || !member.value.body) continue;
      if (rest.length > 0) return { problem: `${full} is a method and has no ${rest.join('.')}` };
      return { kind: 'method', key, isStatic, shown: member.value };
    }
    if ((member.type === 'PropertyDefinition' || member.type === 'AccessorProperty') && member.value)
      return { kind: 'field', value: member.value, infers: key, rest };
  }
  const assigned = assignedField(node, key, isStatic);
  if (assigned) return { kind: 'field', value: assigned, infers: undefined, rest };
  return { problem: missingMember(node, name, key, full) };
}

/** What a target could name in a class: `A.prototype.create`, `A.of`. */
export function classPaths(node: Class, name: string): string[] {
  return node.body.body.flatMap((member) => {
    const key = 'key' in member ? keyOf(member.key, member.computed) : undefined;
    if (key === undefined || key === 'constructor' || key.startsWith('#')) return [];
    return [`${name}.${isStaticMember(member) ? '' : 'prototype.'}${key}`];
  });
}

function isStaticMember(member: ClassElement): boolean {
  return 'static' in member && member.static;
}

/** `this.create = …` in the constructor, or in a static block: how compilers write fields for older engines. */
function assignedField(node: Class, key: string, isStatic: boolean): Expression | undefined {
  for (const member of node.body.body) {
    if (isStatic && member.type === 'StaticBlock') {
      const found = thisField(member.body, key);
      if (found) return found;
    }
    if (!isStatic && member.type === 'MethodDefinition' && member.kind === 'constructor' && member.value.body)
      return thisField(member.value.body.body, key);
  }
  return undefined;
}

function missingMember(node: Class, name: string, key: string, full: string): string {
  const isPrivate = node.body.body.some(
    (member) => 'key' in member && keyOf(member.key, member.computed) === `#${key}`,
  );
  if (isPrivate) return privateMethod(`#${key}`);
  const parent = node.superClass?.type === 'Identifier' ? node.superClass.name : undefined;
  const inherited = parent
    ? `; if ${name} inherits it, name ${full.replace(name, parent)}, where it is defined`
    : '';
  return `no ${full} in this file${didYouMean(full, classPaths(node, name))}${inherited}`;
}
