import type { Program } from 'oxc-parser';
import { finder } from '../find/find.ts';
import { isFunction } from '../find/syntax.ts';
import { type Found, isProblem, type Problem } from '../wrapper-place.ts';
import { chainTo } from './definition-site.ts';
import type { Mapping } from './mappings.ts';

/**
 * Where nobody has the text of the source: a map keeps the names that a minifier took away. The definition is looked for in the built text under
 * what it is called there, and its parameters get the names of the source back.
 */
export function findByNames(
  functionPath: string,
  mappings: readonly Mapping[],
  names: readonly string[],
  program: Program,
  text: string,
): Found | Problem {
  const { root, sourceNames, heads } = headsOf(functionPath, mappings, names, text);
  const find = finder(program, text);
  for (const local of new Set(heads.map(({ at }) => identifierAt(text, at)))) {
    const found = find(local + functionPath.slice(root.length));
    if (isProblem(found)) continue;
    const range = found.shown ?? (found.place.form === 'value' ? found.place : undefined);
    // One name is often used for several: what is found has to be made of this source.
    if (range === undefined || !mappings.some(({ at }) => at >= range.start && at < range.end)) continue;
    return { ...found, parameterNames: namesBefore(found, program, sourceNames) };
  }
  return {
    problem: `its source is neither there nor in the source map, whose names do not lead to ${functionPath}`,
  };
}

/** Where the built text says the first name of the path, as it was in the source. */
export function headsOf(
  functionPath: string,
  mappings: readonly Mapping[],
  names: readonly string[],
  text: string,
): {
  readonly root: string;
  readonly sourceNames: ReadonlyMap<number, string>;
  readonly heads: readonly Mapping[];
} {
  const sourceNames = new Map(mappings.map(({ at, name }) => [at, names[name] ?? identifierAt(text, at)]));
  const root = identifierAt(functionPath, 0);
  return { root, sourceNames, heads: mappings.filter(({ at }) => sourceNames.get(at) === root) };
}

function namesBefore(
  { parameterNames, parametersOf }: Found,
  program: Program,
  sourceNames: ReadonlyMap<number, string>,
): Found['parameterNames'] {
  if (parameterNames === undefined || parametersOf === undefined) return parameterNames;
  const node = chainTo(program, parametersOf.start, parametersOf.end).findLast(isFunction);
  return parameterNames.map((name, index) => {
    const parameter = node?.params[index];
    return name === '' || parameter === undefined ? name : (sourceNames.get(parameter.start) ?? name);
  });
}

function identifierAt(text: string, at: number): string {
  const identifier = /[\p{ID_Start}$_][\p{ID_Continue}$\u200c\u200d]*/uy;
  identifier.lastIndex = at;
  return identifier.exec(text)?.[0] ?? '';
}
