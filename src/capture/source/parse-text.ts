import { createRequire } from 'node:module';
import type { Program } from 'oxc-parser';

/** What the text is, as far as the caller knows; a wrong guess costs a second parse, nothing else. */
export interface TextKind {
  readonly goal: 'module' | 'unknown';
  /** The text still has its types: Node's own type stripping comes after the hook. */
  readonly typed: boolean;
}

type Goal = 'module' | 'commonjs';
type Lang = 'js' | 'jsx' | 'ts' | 'tsx';
type Parser = typeof import('oxc-parser');

let parser: Parser | undefined;

/** Loads the parser: 12 ms, so only when a target's file is there to be read. */
export function loadParser(): Parser {
  // require: hooks are synchronous; and a plain string, so that bundlers of svc leave the native package alone.
  parser ??= createRequire(import.meta.url)('oxc-parser') as Parser;
  return parser;
}

/** The same in the thread of Node's asynchronous hooks, where `require` cannot load ES modules, as the parser is one. */
export async function importParser(): Promise<void> {
  parser ??= await import('oxc-parser');
}

/** Parses a file's text, whichever of JavaScript, JSX and TypeScript it is. */
export function parse(
  file: string,
  text: string,
  kind: TextKind,
): { program: Program } | { problem: string } {
  let problem: string | undefined;
  for (const [goal, lang] of attempts(file, kind)) {
    const result = loadParser().parseSync(file, text, { sourceType: goal, lang });
    const error = result.errors.find((candidate) => candidate.severity === 'Error');
    if (!error) return { program: result.program };
    const at = error.labels[0]?.start;
    // Only the parser's own words: its code frame shows a piece of the file.
    problem ??= `cannot be parsed: ${error.message}${at === undefined ? '' : ` (line ${lineAt(text, at)})`}`;
  }
  return { problem: problem ?? 'cannot be parsed' };
}

/** The line of an offset, counted from 1. */
export function lineAt(text: string, offset: number): number {
  let line = 1;
  for (let at = text.indexOf('\n'); at !== -1 && at < offset; at = text.indexOf('\n', at + 1)) line++;
  return line;
}

/** A `.ts` file's text is JavaScript already when a transformer ran before the hook, so its name alone proves nothing. */
function attempts(file: string, kind: TextKind): [Goal, Lang][] {
  const typed: Lang = /\.tsx$/i.test(file) ? 'tsx' : 'ts';
  const langs: Lang[] = kind.typed ? [typed, 'jsx'] : ['jsx', typed];
  // CommonJS first: it allows what sloppy mode allows, and an import statement makes it fail.
  const goals: Goal[] = kind.goal === 'module' ? ['module'] : ['commonjs', 'module'];
  return goals.flatMap((goal) => langs.map((lang): [Goal, Lang] => [goal, lang]));
}
