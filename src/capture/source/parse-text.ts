import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Program } from 'oxc-parser';
import { nearestManifest } from '../../ground/files.ts';
import { loadChunk } from '../../ground/lifecycle.ts';
import type * as Outlines from './outline.ts';
import type { Range } from './outline.ts';
import { isProblem, messageOf, type Problem } from './wrapper-place.ts';

/** The kind of text, as far as the caller knows. A wrong guess only costs a second parse. */
export interface TextKind {
  readonly goal: 'module' | 'unknown';
  /** The text still has types: Node's own type stripping comes after the hook. */
  readonly typed: boolean;
}

/** What the caller looks for. In a longer text, brackets without any of it are blanked. */
interface Wanted {
  readonly names?: Iterable<string>;
  readonly offsets?: Iterable<number>;
  readonly ranges?: readonly Range[];
  /** Whether other functions are looked up by name too. */
  readonly keepsNames?: boolean;
}

interface Parsed {
  /** As deep as the text is nested: walk it with a loop, not with recursion. */
  readonly program: Program;
  /** The parsed text: all of it, or the wanted parts and their surroundings. Has the length of the original. */
  readonly text: string;
  readonly isWhole: boolean;
}

type Goal = 'module' | 'commonjs';
type Lang = 'js' | 'jsx' | 'ts' | 'tsx';
type Attempt = readonly [Goal, Lang];
type Parser = Pick<typeof import('oxc-parser'), 'parseSync'>;

/** The tree of a shorter text is always small. */
const shortensFrom = 16_384;
/** Longest text that is parsed, in characters: a whole file; below, a shortened text. */
const maxCharacters = 32 * 1024 * 1024;
const maxKept = 2 * 1024 * 1024;
/** A tree, and its JSON text, for each character: 150 were measured for dense code. */
const heapPerCharacter = 200;
/** Half of the default of a worker thread, and less than the main thread's. */
const ownStackBytes = 1_500_000;
const maxStackMb = 1_000;

let parser: Parser | Problem | undefined;

/** Loads the parser on first use: it takes 12 ms. */
export function loadParser(): Parser | Problem {
  try {
    // `require`, because hooks are synchronous; a plain string, so that bundlers skip the native package.
    parser ??= createRequire(import.meta.url)('oxc-parser') as Parser;
  } catch (error) {
    parser = (error as NodeJS.ErrnoException).code === 'ERR_REQUIRE_ESM' ? aside : unloadable(error);
  }
  return parser;
}

/** The same for the thread of Node's asynchronous hooks, where `require` cannot load an ES module such as the parser. */
export async function importParser(): Promise<void> {
  try {
    parser ??= await import('oxc-parser');
  } catch (error) {
    parser = unloadable(error);
  }
}

/** Why the native parser cannot be loaded, and what works without it. */
function unloadable(error: unknown): Problem {
  const messages: string[] = [];
  // One error for each location that was tried.
  for (let each = error; each instanceof Error && messages.length < 50; each = each.cause)
    messages.push(each.message);
  const remedy = 'or run svc manifest after each build, so that a start parses nothing (docs/capture.md)';
  // Node's ERR_DLOPEN_DISABLED, wrapped without its code.
  if (messages.some((each) => each.includes('addons is disabled'))) {
    const flag = process.permission
      ? '--permission disables native addons: add --allow-addons'
      : '--no-addons disables native addons: start without it';
    return { problem: `svc cannot load its parser: ${flag}, ${remedy}` };
  }
  if (messages.some((each) => each.includes('Cannot find module')))
    return {
      problem: `svc cannot load its parser, because its native part is not installed. It is an optional dependency, missing after npm ci --omit=optional or in node_modules of another platform. Install it, ${remedy}`,
    };
  return { problem: `svc cannot load its parser (${messages[0] ?? 'unknown error'}), ${remedy}` };
}

/** Parses JavaScript, JSX or TypeScript. A text that may overflow the stack is parsed in a thread with a larger one. */
export function parse(file: string, text: string, kind: TextKind, wanted?: Wanted): Parsed | Problem {
  if (text.length > maxCharacters) return tooLarge(text.length, maxCharacters);
  const isShort = text.length < shortensFrom;
  if (isShort && maxStackOf(text) < ownStack()) return parseWith(loadParser(), file, text, kind, 0, true);
  const hasElements = !/\.[cm]?ts$/i.test(file);
  const { outlineOf, shortened } = outlines();
  const { groups, stackBytes } = outlineOf(text, hasElements);
  // With unbalanced brackets the bound is too high; no program that runs is nested so deep.
  const whole = groups ? stackBytes : Math.min(stackBytes, maxStackMb * 0.5 * mebibyte);
  if (wanted && groups && !(isShort && whole < ownStack())) {
    const offsets = offsetsOf(wanted, text);
    let tooMuch: Problem | undefined;
    // The shortened text may be invalid. Then less is left out, or the parser reports the error.
    for (const what of wanted.keepsNames ? ways.slice(1) : ways) {
      const short = shortened(text, groups, offsets, wanted.ranges ?? [], what);
      if (short.kept === text.length) continue;
      const refused = whyNot(short.kept);
      tooMuch ??= refused;
      const parsed = refused ?? parseShortened(file, short, kind, hasElements, whole);
      if (!isProblem(parsed)) return parsed;
    }
    if (tooMuch) return tooMuch;
  }
  const tooMuch = whyNot(text.length);
  return tooMuch ?? parseWith(loadParser(), file, text, kind, whole, true);
}

/** Only long or deep texts need it. */
const outlines = () => loadChunk(import.meta.url, './outline.ts') as typeof Outlines;

const ways = ['declarations', 'brackets', 'curly brackets'] as const;

function parseShortened(
  file: string,
  short: NonNullable<ReturnType<typeof Outlines.shortened>>,
  kind: TextKind,
  hasElements: boolean,
  whole: number,
): Parsed | Problem {
  // Its stack is at most that of the whole text.
  const stackBytes = whole < ownStack() ? whole : outlines().outlineOf(short.text, hasElements).stackBytes;
  return parseWith(loadParser(), file, short.text, kind, stackBytes, false);
}

const mebibyte = 1024 * 1024;

function whyNot(characters: number): Problem | undefined {
  if (characters > maxKept) return tooLarge(characters, maxKept);
  if (characters < 64 * 1024) return undefined;
  const { heap_size_limit, used_heap_size } = process.getBuiltinModule('node:v8').getHeapStatistics();
  const free = heap_size_limit - used_heap_size;
  if (characters * heapPerCharacter < free) return undefined;
  const [needed, there] = [characters * heapPerCharacter, free].map((each) => Math.ceil(each / mebibyte));
  return {
    problem: `parsing it takes ${needed} MB of the heap, which has ${there} MB left: ${remedyForSize}`,
  };
}

const remedyForSize =
  'run svc manifest after each build, so that a start parses nothing, or name a file of the sources';

function tooLarge(characters: number, max: number): Problem {
  const [there, bound] = [characters, max].map((each) => Math.ceil((each * 10) / mebibyte) / 10);
  return {
    problem: `too much to parse: ${there} MB of source, but svc reads ${bound} MB at most: ${remedyForSize}`,
  };
}

/** An upper bound, however the brackets and operators of the text are nested. */
function maxStackOf(text: string): number {
  const count = (pattern: RegExp) => text.match(pattern)?.length ?? 0;
  const words = count(
    /\b(?:class|extends|yield|for|with|keyof|infer|unique|readonly|asserts|abstract|else|if|while|do|new|await|typeof|void|delete|in|instanceof|as|satisfies|is|of)\b/g,
  );
  return (
    count(/[([{`]/g) * 2_000 + (count(/[<=?]/g) + words) * 1_500 + count(/[^\w\s)\]},;'"([{`<=?]/g) * 500
  );
}

/** Bytes of this thread's stack that the parser may take. */
function ownStack(): number {
  const { stackSizeMb } = process.getBuiltinModule('node:worker_threads').resourceLimits;
  return stackSizeMb === undefined ? ownStackBytes : Math.min(ownStackBytes, (stackSizeMb * mebibyte) / 3);
}

function offsetsOf({ names, offsets, ranges }: Wanted, text: string): readonly number[] {
  const found = new Set(offsets);
  for (const { start } of ranges ?? []) found.add(start);
  const words = new Set(names);
  // A common word: search only for a default export.
  const ends = words.delete('default')
    ? /\bexport\s+default\b|\bdefault\s*(?:=[^=]|:\s*(?:\(|function))|\bas\s+default\b|["']default["']/g
    : undefined;
  if (ends) for (const { index } of text.matchAll(ends)) found.add(index);
  if (words.size > 0) {
    const plain = [...words].every((each) => /^[\w$]+$/.test(each));
    const list = [...words].map((each) => each.replace(/[^\w]/g, '\\$&')).join('|');
    const pattern =
      plain && words.size > 30 ? /[\w$]+/g : new RegExp(`(?<![\\w$])(?:${list})(?![\\w$])`, 'g');
    for (let hit = pattern.exec(text); hit; hit = pattern.exec(text))
      if (words.has(hit[0]) && !isPlainCall(text, hit.index, pattern.lastIndex)) found.add(hit.index);
  }
  return [...found].sort((a, b) => a - b);
}

/** `order.create(…)` does not define anything. */
function isPlainCall(text: string, start: number, end: number): boolean {
  return text[start - 1] === '.' && text[end] === '(' && text[start - 2] !== '.';
}

interface Answer {
  readonly json?: string;
  readonly program?: Program;
  readonly error?: { readonly message: string; readonly at: number | undefined };
  readonly failure?: string;
}

function parseWith(
  loaded: Parser | Problem,
  file: string,
  text: string,
  kind: TextKind,
  stackBytes: number,
  isWhole: boolean,
): Parsed | Problem {
  if (isProblem(loaded)) return loaded;
  const isAside = loaded === aside || stackBytes > ownStack();
  const answer = isAside
    ? parseAside(file, text, attempts(file, kind), stackBytes)
    : parseHere(loaded, file, text, attempts(file, kind));
  if (answer.program) return { program: answer.program, text, isWhole };
  if (answer.failure !== undefined) return { problem: answer.failure };
  const { message, at } = answer.error ?? { message: '', at: undefined };
  // Only the parser's message: its code frame shows a part of the file.
  const reason = [message, at === undefined ? '' : `(line ${lineAt(text, at)})`].join(' ').trim();
  return { problem: reason === '' ? 'cannot be parsed' : `cannot be parsed: ${reason}` };
}

function parseHere({ parseSync }: Parser, file: string, text: string, tries: readonly Attempt[]): Answer {
  let first: Answer['error'];
  for (const [sourceType, lang] of tries) {
    const result = parseSync(file, text, { sourceType, lang });
    const error = result.errors.find(({ severity }) => severity === 'Error');
    if (!error) return { program: result.program };
    first ??= { message: error.message, at: error.labels[0]?.start };
  }
  return first ? { error: first } : {};
}

/** The parser can only be loaded in another thread: `--no-experimental-require-module`. */
const aside = {} as Parser;

/** Runs in a thread with the stack that is needed, and returns the tree as JSON. */
const parseThread = `
const { workerData: { bindings, file, text, tries, signal, port } } = require('node:worker_threads');
const answer = ({ parseSync }) => {
  let first;
  for (const [sourceType, lang] of tries) {
    const result = parseSync(file, text, { sourceType, lang });
    const error = result.errors.find(({ severity }) => severity === 'Error');
    if (!error) return { json: result.program };
    first ??= { message: error.message, at: error.labels[0]?.start };
  }
  return { error: first };
};
import(bindings).then(answer).catch((error) => ({ failure: String(error?.message) })).then((found) => {
  try {
    port.postMessage(found);
  } catch (error) {
    port.postMessage({ failure: String(error?.message) });
  }
  Atomics.store(signal, 0, 1);
  Atomics.notify(signal, 0);
});`;

const longestWaitMs = 60_000;

function parseAside(file: string, text: string, tries: readonly Attempt[], stackBytes: number): Answer {
  // Half as much again as measured on one platform, plus what the thread itself needs.
  const stackSizeMb = Math.ceil((stackBytes * 1.5) / mebibyte) + 4;
  if (stackSizeMb > maxStackMb)
    return {
      failure: `nested too deeply to be parsed: it may need ${stackSizeMb} MB of stack, and svc uses ${maxStackMb} at most`,
    };
  const { MessageChannel, receiveMessageOnPort, Worker } = process.getBuiltinModule('node:worker_threads');
  const signal = new Int32Array(new SharedArrayBuffer(4));
  const { port1, port2 } = new MessageChannel();
  try {
    // The file of the package that returns JSON: building the tree here and copying it takes three times as long.
    const entry = createRequire(import.meta.url).resolve('oxc-parser');
    const bindings = pathToFileURL(join(dirname(entry), 'bindings.js')).href;
    const worker = new Worker(parseThread, {
      eval: true,
      // Skips the application's own preloads.
      execArgv: [],
      env: { ...process.env, NODE_OPTIONS: '' },
      workerData: { bindings, file, text, tries, signal, port: port2 },
      transferList: [port2],
      resourceLimits: { stackSizeMb },
    });
    worker.on('error', () => {});
    worker.unref();
    Atomics.wait(signal, 0, 0, longestWaitMs);
    const answer = receiveMessageOnPort(port1)?.message as Answer | undefined;
    if (answer === undefined) void worker.terminate();
    if (answer?.json !== undefined) return { program: (JSON.parse(answer.json) as { node: Program }).node };
    return answer ?? { failure: 'cannot be parsed: the parser thread did not answer' };
  } catch (error) {
    return {
      failure: `cannot be parsed: it needs a thread with ${stackSizeMb} MB of stack (${messageOf(error)})`,
    };
  } finally {
    port1.close();
  }
}

export function lineAt(text: string, offset: number): number {
  let line = 1;
  for (let at = text.indexOf('\n'); at !== -1 && at < offset; at = text.indexOf('\n', at + 1)) line++;
  return line;
}

/** The extension is not enough: a transformer before the hook may have turned a `.ts` file into JavaScript. */
function attempts(file: string, kind: TextKind): Attempt[] {
  const typed: Lang = /\.tsx$/i.test(file) ? 'tsx' : 'ts';
  const langs: Lang[] = kind.typed ? [typed, 'jsx'] : ['jsx', typed];
  // CommonJS first: it allows sloppy mode, and fails on an import statement.
  const goals: Goal[] = kind.goal === 'module' ? ['module'] : ['commonjs', 'module'];
  return goals.flatMap((goal) => langs.map((lang): Attempt => [goal, lang]));
}

/** Whether Node loads the file as an ES module, by its extension and package.json. Ignores syntax detection. */
export function isEsModule(path: string): boolean {
  if (/\.m[jt]s$/.test(path)) return true;
  return !/\.c[jt]s$/.test(path) && nearestManifest(dirname(path))?.type === 'module';
}
