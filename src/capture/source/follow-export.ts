import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { didYouMean, inEachForm } from '../../ground/names.ts';
import { type ExportTable, readExports, type Value, within } from './export-table.ts';
import { findPaths } from './find.ts';
import { isEsModule, parse } from './parse-text.ts';
import { resolveSpecifier } from './resolve-specifier.ts';
import { type Found, isProblem, type Problem } from './wrapper-place.ts';

// from what a package exports to the file that defines it, which svc changes as if it were the application's own.

/** Where an export of a package is defined. */
export interface Definition {
  /** Absolute, a real path. */
  readonly file: string;
  readonly isModule: boolean;
  /** The path that leads to the function in the text of the file; `undefined` where the text does not show it. */
  readonly names: readonly string[] | undefined;
  /** What the file itself exports it as, where it is CommonJS. */
  readonly exported: readonly string[] | undefined;
  /** The name in the scope of an ES module that can be assigned. */
  readonly isAssignable: boolean;
  /** Looked for inside of what the module exports as a whole: it is there only if the text shows it. */
  readonly isGuess?: boolean;
}

type Names = readonly string[];

/** A way has fewer files; beyond these the search ends. */
const mostFiles = 400;

/** Follows exports from one file to another. Each file is read once. */
export interface Follower {
  /** The definitions of an export; more than one where a condition decides which file is loaded. */
  follow(entry: string, names: Names): Definition[];
  /** What to say of a name that an ES module does not export. */
  missing(entry: string, names: Names): string;
}

export function follower(): Follower {
  const tables = new Map<string, ReturnType<typeof read>>();
  let left = mostFiles;

  const readOf = (file: string, names: Names): ReturnType<typeof read> => {
    const known = tables.get(file);
    if (known !== undefined || tables.has(file)) return known;
    if (left-- <= 0) return undefined;
    const made = read(file, names);
    // Of a part another path may need another part.
    if (made === undefined || isProblem(made) || !made.isPart) tables.set(file, made);
    return made;
  };
  const tableOf = (file: string, names: Names): ExportTable | undefined => {
    const made = readOf(file, names);
    return made === undefined || isProblem(made) ? undefined : made;
  };

  const exportOf = (file: string, names: Names, seen: Set<string>): Definition[] => {
    const key = `${file}\n${names.join('.')}`;
    if (seen.has(key)) return [];
    seen.add(key);
    const table = tableOf(file, names);
    if (table === undefined) return [];
    const [head, ...rest] = names;
    if (head === undefined) return wholeOf(file, table, [], seen);
    const named = table.named.get(head);
    if (named !== undefined) {
      const found = unique(named.flatMap((value) => behind(file, table, value, rest, names, seen)));
      if (found.length > 0 || table.isModule) return found;
    }
    const starred = throughStars(file, table, names, seen);
    if (starred.length > 0) return starred;
    if (!table.isModule) {
      if (head === 'default') {
        // What `import x from` gives of CommonJS are its exports.
        const whole = table.whole.length > 0 ? wholeOf(file, table, rest, seen) : exportOf(file, rest, seen);
        if (whole.length > 0) return whole;
      }
      const inWhole = table.whole.flatMap((value) => {
        // `module.exports = Stripe`, asked for as `Stripe`.
        const isItself = value.kind === 'local' && value.names.length === 0 && value.name === head;
        const path = isItself ? rest : names;
        if (value.kind === 'here') return [];
        const found = behind(file, table, value, path, path, seen);
        return isItself || value.kind === 'from' || value.kind === 'object' ? found : guessed(found);
      });
      if (inWhole.length > 0) return unique(inWhole);
    }
    // `export default { send() {} }`: its functions are asked for by their own names.
    if (head !== 'default' && table.named.has('default')) {
      const value = table.named.get('default')?.[0];
      const isItself = value?.kind === 'local' && value.name === head;
      if (value?.kind === 'local' || value?.kind === 'object' || value?.kind === 'from')
        return guessed(exportOf(file, ['default', ...(isItself ? rest : names)], seen));
    }
    return [];
  };

  const wholeOf = (file: string, table: ExportTable, rest: Names, seen: Set<string>): Definition[] =>
    table.isModule
      ? []
      : unique(table.whole.flatMap((value) => behind(file, table, value, rest, rest, seen)));

  const throughStars = (file: string, table: ExportTable, names: Names, seen: Set<string>): Definition[] => {
    const [head = ''] = names;
    if (head === 'default') return [];
    for (const specifier of likeliestFirst(table.stars, head)) {
      const next = resolveSpecifier(specifier, file, table.isModule ? 'import' : 'require');
      if (next === undefined || !mayExport(next, head)) continue;
      const found = exportOf(next, names, seen).filter(({ isGuess }) => !isGuess);
      if (found.length > 0) return found;
    }
    return [];
  };

  /** Without reading syntax trees: a module of the package that does not even have the word cannot export the name. */
  const mayExport = (file: string, head: string): boolean => {
    if (tables.has(file)) return true;
    try {
      const text = readFileSync(file, 'utf8');
      return text.includes(head) || /export\s*\*|export_?star|reexport|require\s*\(|forEach/i.test(text);
    } catch {
      return false;
    }
  };

  const behind = (
    file: string,
    table: ExportTable,
    value: Value,
    rest: Names,
    exported: Names,
    seen: Set<string>,
  ): Definition[] => {
    const here = (names: Names | undefined, isAssignable = false): Definition[] => [
      {
        file,
        isModule: table.isModule,
        names,
        exported: table.isModule ? undefined : exported,
        isAssignable,
      },
    ];
    switch (value.kind) {
      case 'from': {
        const next = resolveSpecifier(value.specifier, file, table.isModule ? 'import' : 'require');
        return next === undefined ? [] : exportOf(next, [...value.names, ...rest], seen);
      }
      case 'export': {
        const names = [...value.names, ...rest];
        return names.length === 0 ? wholeOf(file, table, [], seen) : exportOf(file, names, seen);
      }
      case 'local': {
        const lent = table.borrowed.get(value.name);
        if (lent !== undefined) return behind(file, table, within(lent, value.names), rest, exported, seen);
        return here([value.name, ...value.names, ...rest], table.assignable.has(value.name));
      }
      case 'object': {
        const [head, ...more] = rest;
        const member = head === undefined ? undefined : value.members.get(head);
        if (member !== undefined) {
          const found = behind(file, table, member, more, exported, seen);
          if (found.length > 0) return found;
        }
        if (member === undefined)
          for (const spread of value.spreads) {
            const found = behind(file, table, spread, rest, exported, seen);
            if (found.length > 0) return found;
          }
        return member === undefined ? [] : here(inText(table, exported));
      }
      case 'here':
        // `module.exports = make()`: the other names that it has inside of itself are known when it has run.
        return here(
          table.isModule || value.isFunction || exported.length > 0 ? inText(table, exported) : undefined,
        );
    }
  };

  return {
    follow(entry, names) {
      left = mostFiles;
      let found: Definition[] = [];
      for (const form of inEachForm(names.join('.'))) {
        found = exportOf(entry, form.split('.'), new Set()).filter((each) => !each.isGuess || isShown(each));
        if (found.length > 0) break;
      }
      const isModule = tableOf(entry, names)?.isModule ?? isEsModule(entry);
      // What a CommonJS module exports may be computed: that shows when it has run.
      if (found.length === 0 && !isModule)
        return [{ file: entry, isModule: false, names: undefined, exported: names, isAssignable: false }];
      return found;
    },
    missing(entry, names) {
      const [head = ''] = names;
      const table = readOf(entry, names);
      if (table === undefined) return 'the package cannot be read';
      if (isProblem(table)) return `the package cannot be read: ${table.problem}`;
      return `the module has no export ${head}${didYouMean(head, [...table.named.keys()])}`;
    },
  };
}

/** The path of an export in the text of its file: of CommonJS what is assigned to `exports`. */
function inText(table: ExportTable, exported: Names): Names {
  return table.isModule ? exported : ['exports', ...exported];
}

const guessed = (found: readonly Definition[]): Definition[] =>
  found.map((each) => ({ ...each, isGuess: true }));

function isShown({ file, names, isModule }: Definition): boolean {
  if (names === undefined) return false;
  const text = readFileSync(file, 'utf8');
  const kind = { goal: isModule ? 'module' : 'unknown', typed: false } as const;
  const all = findPaths(file, text, kind, [names.join('.')]);
  const found = isProblem(all) ? all : (all.found[0] as Found | Problem);
  if (isProblem(found)) return false;
  // A path into a value that the text does not show is a guess as well.
  return (
    isModule || found.shown !== undefined || found.place.form !== 'value' || found.place.path.length === 0
  );
}

/** Words that lead out of a file. */
const ways = ['import', 'export', 'exports', 'module', 'require'];

function read(
  file: string,
  names: Names,
): (ExportTable & { readonly isPart: boolean }) | Problem | undefined {
  if (!/\.[cm]?js$/.test(file)) return undefined;
  const text = readFileSync(file, 'utf8');
  const kind = { goal: file.endsWith('.mjs') ? 'module' : 'unknown', typed: false } as const;
  const whole = parse(file, text, kind);
  if (!isProblem(whole)) return { ...readExports(whole.program), isPart: false };
  // What is too large to be read as a whole: what leads to this export.
  const part = parse(file, text, kind, { names: [...ways, ...names], keepsNames: true });
  return isProblem(part) ? whole : { ...readExports(part.program), isPart: true };
}

/** `./add.js` before the others, where `add` is looked for. */
function likeliestFirst(specifiers: readonly string[], name: string): string[] {
  const plain = (text: string) => text.toLowerCase().replace(/[^a-z0-9]/g, '');
  const wanted = plain(name);
  const stem = (specifier: string) => plain(basename(specifier).replace(/\.[cm]?js$/, ''));
  const rank = (specifier: string) => {
    const own = stem(specifier);
    return own === wanted ? 0 : own !== '' && (wanted.includes(own) || own.includes(wanted)) ? 1 : 2;
  };
  return [...specifiers].sort((one, other) => rank(one) - rank(other));
}

function unique(definitions: readonly Definition[]): Definition[] {
  return [...new Map(definitions.map((each) => [`${each.file}\n${each.names?.join('.')}`, each])).values()];
}
