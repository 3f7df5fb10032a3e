import type { Node, Program } from 'oxc-parser';
import { keyOf } from '../../capture/source/find/syntax.ts';

export type FieldNames = readonly string[];

const values = /^TS(?:String|Number|Boolean|BigInt|Literal)(?:Keyword|Type)$/;
const nothings = /^TS(?:Void|Undefined|Null|Never)Keyword$/;

/** The names of the plain values in a type that this file writes down; `value` for one itself, `undefined` where it is not known. */
export function typeOf(type: Node, program: Program, depth = 0): FieldNames | 'value' | undefined {
  if (values.test(type.type)) return 'value';
  if (nothings.test(type.type)) return [];
  if (type.type === 'TSTypeLiteral') return fieldsIn(type.members, program, depth);
  if (type.type === 'TSUnionType') {
    const kinds = type.types.filter((each) => !nothings.test(each.type));
    return kinds.every((each) => typeOf(each, program, depth + 1) === 'value') ? 'value' : undefined;
  }
  if (type.type !== 'TSTypeReference' || type.typeName.type !== 'Identifier' || depth > 5) return undefined;
  const { name } = type.typeName;
  const [first] = type.typeArguments?.params ?? [];
  if (/^(?:Promise|Readonly|Required|Partial)$/.test(name) && first) return typeOf(first, program, depth + 1);
  if (name === 'Date') return 'value';
  for (const statement of program.body) {
    const declared =
      statement.type === 'ExportNamedDeclaration' && statement.declaration
        ? statement.declaration
        : statement;
    if (declared.type === 'TSInterfaceDeclaration' && declared.id.name === name)
      return fieldsIn(declared.body.body, program, depth);
    if (declared.type === 'TSTypeAliasDeclaration' && declared.id.name === name)
      return typeOf(declared.typeAnnotation, program, depth + 1);
  }
  return undefined;
}

/** Objects inside could hold anything: they are left to the person who writes the expression. */
function fieldsIn(members: readonly Node[], program: Program, depth: number): FieldNames {
  return members.flatMap((member) => {
    if (member.type !== 'TSPropertySignature') return [];
    const type = member.typeAnnotation?.typeAnnotation;
    const isPlain = type !== undefined && typeOf(type, program, depth + 1) === 'value';
    return isPlain ? (keyOf(member.key, member.computed) ?? []) : [];
  });
}
