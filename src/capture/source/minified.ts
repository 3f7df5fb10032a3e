/** Ordinary lines have 30 to 40 characters, those of a minifier thousands. */
const shortestLine = 60;
/** Names that a minifier makes: a letter or two, three in a large bundle. */
const longestMadeUp = 3;
const share = 0.75;

/** What to do where the names of a file are gone; `undefined` where they are not. `names`: those that the file defines. */
export function minifiedHint(text: string, names: Iterable<string>): string | undefined {
  const own = [...names].filter((name) => !name.includes('.') && name !== 'exports');
  const lines = Math.max(1, text.trimEnd().split('\n').length);
  const madeUp = own.filter((name) => name.length <= longestMadeUp).length;
  if (own.length === 0 || madeUp < own.length * share || text.length / lines < shortestLine) return undefined;
  return 'it is minified, and the names of its functions are gone: minify without renaming (esbuild: --minify-whitespace --minify-syntax), or declare in code with publishEvent(options, fn) or @PublishEvent';
}
