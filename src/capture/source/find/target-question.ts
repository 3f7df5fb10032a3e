import type { Expression } from 'oxc-parser';
import { didYouMean } from '../../../ground/nearest-names.ts';
import type { Place, Problem } from '../wrapper-place.ts';
import type { Definitions } from './definitions.ts';
import { classPaths } from './find-in-class.ts';
import { objectPaths } from './find-in-object.ts';
import { type AnyFunction, core, isClass } from './syntax.ts';

/** One target asked of one file. */
export interface Question {
  readonly definitions: Definitions;
  readonly text: string;
  /** As configured, for messages. */
  readonly functionPath: string;
  /** Names looked up so far, so that aliases in a circle end. */
  readonly seen: Set<string>;
  readonly asked?: Asked | undefined;
}

/** What of a text the answers depend on. */
export interface Asked {
  readonly names: Set<string>;
  /** Functions whose results were looked into. */
  readonly factories: { readonly start: number; readonly end: number }[];
}

/** A place, and the function itself where the text shows it. */
export interface Hit {
  readonly place: Place;
  readonly shown: AnyFunction | undefined;
}

/** Every path that a target could name in this file. */
function knownPaths(definitions: Definitions): string[] {
  const paths = [...definitions.aliases.keys()];
  for (const [key, list] of definitions.byName) {
    const name = key.replace(/^exports\./, '');
    if (name !== 'exports') paths.push(name);
    for (const { node } of list) {
      const value = core(node as Expression);
      if (isClass(value)) paths.push(...classPaths(value, name));
      if (value.type !== 'ObjectExpression') continue;
      // The properties of module.exports are names of the module.
      paths.push(...objectPaths(value, name).map((path) => path.replace(/^exports\./, '')));
    }
  }
  return paths;
}

export function notFound(question: Question, name: string): Problem {
  const { definitions, text } = question;
  const minified = minifiedHint(text, definitions.byName.keys());
  const near = didYouMean(name, knownPaths(definitions));
  return { problem: `no ${name} in this file${near}${minified === undefined ? '' : `: ${minified}`}` };
}

export function notAFunction(question: Question, name: string, what: string): Problem {
  const inside = knownPaths(question.definitions).filter((path) => path.startsWith(`${name}.`));
  const named = inside.length > 0 ? `; it has ${inside.slice(0, 5).join(', ')}` : '';
  return { problem: `${name} is not a function but ${what}${named}` };
}

/** Ordinary lines have 30 to 40 characters, those of a minifier thousands. */
const shortestLine = 60;
/** Names that a minifier makes: a letter or two, three in a large bundle. */
const longestMadeUp = 3;
const share = 0.75;

/** What to do where the names of a file are gone; `undefined` where they are not. `names`: those that the file defines. */
function minifiedHint(text: string, names: Iterable<string>): string | undefined {
  const own = [...names].filter((name) => !name.includes('.') && name !== 'exports');
  const lines = Math.max(1, text.trimEnd().split('\n').length);
  const madeUp = own.filter((name) => name.length <= longestMadeUp).length;
  if (own.length === 0 || madeUp < own.length * share || text.length / lines < shortestLine) return undefined;
  return 'it is minified, and the names of its functions are gone: name its source and ship the source map, minify without renaming (esbuild: --minify-whitespace --minify-syntax), or declare in code with publishEvent(options, fn) or @PublishEvent';
}
