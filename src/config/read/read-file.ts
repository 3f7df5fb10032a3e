import { relative } from 'node:path';
import { readBoundedSync } from '../../ground/files/folders.ts';
import { foreignFile } from '../../ground/files/foreign-file.ts';
import type { RawPath } from '../check/flatten.ts';
import { describeType, type Problem } from '../check/problem.ts';
import type { FoundFile } from './find-file.ts';
import { loadModule } from './read-module.ts';
import { type ParsedText, parseYaml } from './read-yaml.ts';

export interface FileContent {
  readonly root: object;
  /** `svc.config.yaml:7` */
  readonly where: (path: RawPath) => string;
  /** Whether a value stands in the text of the file itself. Code may take it from elsewhere, as from `process.env`. */
  readonly isLiteral: (value: string) => boolean;
}

export type ReadFile =
  | { readonly ok: true; readonly content: FileContent; readonly warnings: readonly Problem[] }
  | { readonly ok: false; readonly problem: Problem };

type Parsed =
  | {
      readonly ok: true;
      readonly value: unknown;
      readonly lineOf: (path: RawPath) => number | undefined;
      /** Its text, of code. */
      readonly code?: string;
    }
  | { readonly ok: false; readonly problem: Problem };

/** Thousands of targets have one. */
const mostConfigBytes = 16 * 1024 ** 2;

/** Reads a configuration file. An empty one is an empty object with a warning. */
export function readFile({ path, namedBy }: FoundFile, cwd: string): ReadFile {
  const name = displayPath(path, cwd);
  // Who names this very file answers for those who can change it.
  const foreign = namedBy === undefined ? foreignFile(path, isCode(path)) : undefined;
  if (foreign !== undefined) return { ok: false, problem: { name, ...foreign } };
  const parsed = parse(path, name, namedBy);
  if (!parsed.ok) return parsed;
  const { value, lineOf, code } = parsed;
  const where = (rawPath: RawPath) => {
    const line = lineOf(rawPath);
    return line === undefined ? name : `${name}:${line}`;
  };
  if (value === null || value === undefined) {
    const content = { root: {}, where, isLiteral: () => false };
    return { ok: true, content, warnings: [{ name, message: 'is empty' }] };
  }
  if (typeof value !== 'object' || Array.isArray(value)) {
    const fix = 'Begin it with svc: and the names under it';
    return {
      ok: false,
      problem: { name, message: 'must hold names and values', got: describeType(value), fix },
    };
  }
  const isLiteral = (text: string) =>
    code === undefined || ['"', "'", '`'].some((quote) => code.includes(quote + text + quote));
  return { ok: true, content: { root: value, where, isLiteral }, warnings: [] };
}

/** Relative when it lies in the working directory. */
export function displayPath(path: string, cwd: string): string {
  const short = relative(cwd, path);
  return short === '' || short.startsWith('..') ? path : short;
}

function endingOf(path: string): string {
  return path.slice(path.lastIndexOf('.') + 1).toLowerCase();
}

function isCode(path: string): boolean {
  return ['mjs', 'cjs', 'js', 'ts', 'mts', 'cts'].includes(endingOf(path));
}

function parse(path: string, name: string, namedBy: string | undefined): Parsed {
  const ending = endingOf(path);
  if (!isCode(path) && !['yaml', 'yml', 'json'].includes(ending)) {
    const fix = 'Name a .yaml, .yml, .json, .mjs or .ts file';
    return { ok: false, problem: { name, message: 'has an ending that svc does not read', fix } };
  }
  let text: string;
  try {
    // Code as well: a missing file or a folder is to get the same message.
    text = readBoundedSync(path, mostConfigBytes).toString();
  } catch (error) {
    return { ok: false, problem: { name, ...explainRead((error as NodeJS.ErrnoException).code, namedBy) } };
  }
  if (isCode(path)) {
    const loaded = loadModule(path, name);
    return loaded.ok ? { ...loaded, lineOf: () => undefined, code: text } : loaded;
  }
  return ending === 'json' ? parseJson(text, name) : parseYamlFile(text, name);
}

function explainRead(code: string | undefined, namedBy: string | undefined): Omit<Problem, 'name'> {
  if (code === 'ENOENT') {
    const fix = namedBy === undefined ? 'Create the file' : `Correct ${namedBy}, or create the file`;
    return { message: 'does not exist', fix };
  }
  if (code === 'EISDIR') return { message: 'is a folder, not a file', fix: 'Name a file' };
  if (code === 'EACCES')
    return { message: 'may not be read', fix: 'Give the user of the application the right to read it' };
  if (code === 'EFBIG')
    return {
      message: `is larger than ${mostConfigBytes / 1024 ** 2} MiB`,
      fix: 'Name the configuration file',
    };
  return { message: `cannot be read: ${code}` };
}

function parseYamlFile(text: string, name: string): Parsed {
  const parsed = parseYaml(text);
  if (parsed.ok) return parsed;
  const where = parsed.line === undefined ? undefined : `line ${parsed.line}`;
  return { ok: false, problem: { name, message: parsed.reason, where } };
}

function parseJson(text: string, name: string): Parsed {
  const bare = text.replace(/^\uFEFF/, '');
  if (bare.trim() === '') return { ok: true, value: null, lineOf: () => undefined };
  try {
    const value: unknown = JSON.parse(bare);
    // JSON is YAML, so the same search finds lines, and its parser is loaded only when there is something to say.
    let asYaml: ParsedText | undefined;
    const lineOf = (path: RawPath): number | undefined => {
      asYaml ??= parseYaml(bare);
      return asYaml.ok ? asYaml.lineOf(path) : undefined;
    };
    return { ok: true, value, lineOf };
  } catch (error) {
    // The rest of the message quotes the text.
    const position = /at position (\d+)/.exec(String((error as Error).message))?.[1];
    const line = position === undefined ? undefined : bare.slice(0, Number(position)).split('\n').length;
    const where = line === undefined ? undefined : `line ${line}`;
    return {
      ok: false,
      problem: {
        name,
        message: 'is not valid JSON',
        where,
        fix: 'Comments and trailing commas are not allowed',
      },
    };
  }
}
