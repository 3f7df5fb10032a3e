import type { Expression } from 'oxc-parser';
import { lineAt } from '../parse-text.ts';
import { isProblem, type Problem } from '../wrapper-place.ts';
import type { Definition } from './definitions.ts';
import { core, isClass } from './syntax.ts';
import type { Question } from './target-question.ts';

/** The definition that a module's name means: its own, then what it exports under that name, then a nested one. */
export function pickName(question: Question, name: string): Definition | Problem | undefined {
  if (question.seen.has(name)) return undefined;
  question.seen.add(name);
  const { aliases, byName } = question.definitions;
  const own = byName.get(name) ?? [];
  if (own.some((definition) => definition.tier === 0)) return pickFrom(question, name, own);
  const alias = aliases.get(name);
  const behind = alias === undefined ? undefined : pickName(question, alias);
  if (behind && !(isProblem(behind) && own.length > 0)) return behind;
  const exported = pickPath(question, [`exports.${name}`, ...(name === 'default' ? ['exports'] : [])]);
  // `exports.create = create`, where `create` stands in a function around the module.
  const isItself = exported && !isProblem(exported) && isName(exported, name);
  if (exported && !(isItself && own.length > 0)) return exported;
  return own.length > 0 ? pickFrom(question, name, own) : undefined;
}

function isName({ kind, node }: Definition, name: string): boolean {
  const value = kind === 'value' ? core(node) : undefined;
  return value?.type === 'Identifier' && value.name === name;
}

/** The first of these paths that the file gives a value. */
export function pickPath(question: Question, paths: readonly string[]): Definition | Problem | undefined {
  for (const path of paths) {
    const list = question.definitions.byName.get(path);
    if (list) return pickFrom(question, path, list);
  }
  return undefined;
}

/** Of several definitions the one nearest to the module scope; equally near ones are a question to the user. */
function pickFrom(question: Question, name: string, all: readonly Definition[]): Definition | Problem {
  const defined = all.filter((each) => each.kind === 'declaration' || each.isMerge !== true);
  const list = defined.length > 0 ? defined : all;
  const nearest = Math.min(...list.map((definition) => definition.tier));
  // `exports = module.exports = f` gives one value twice.
  const values = new Map(
    list.filter((each) => each.tier === nearest).map((each) => [core(each.node as Expression), each]),
  );
  const candidates = [...values.values()];
  const [first, second] = candidates;
  if (first && !second) return insideOf(first, list);
  const lines = [...new Set(candidates.map((each) => lineAt(question.text, each.node.start)))];
  const where = `line${lines.length > 1 ? 's' : ''} ${lines.join(', ')}`;
  return {
    problem: `${name} is ambiguous: it is defined ${candidates.length} times (${where}); give the one that is meant a name of its own`,
  };
}

/** `var A = (() => { class A {} return A; })()`, as compilers write it: the class inside is the one that is meant. */
function insideOf(outer: Definition, list: readonly Definition[]): Definition {
  if (outer.kind !== 'value' || core(outer.node).type !== 'CallExpression') return outer;
  const [only, more] = list.filter(
    ({ kind, node }) =>
      node.start > outer.node.start &&
      node.end < outer.node.end &&
      (kind === 'declaration' || isClass(core(node as Expression))),
  );
  return only && !more ? only : outer;
}
