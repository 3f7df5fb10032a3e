import { existsSync, readdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { threadId } from 'node:worker_threads';
import { hasSoundSyncHooks } from './node-hooks.ts';
import type { Inserted } from './shift-source-map.ts';
import { givenName } from './wrapper-place.ts';

interface Insertion extends Inserted {
  /** The name that the function behind it has, and V8 no longer infers. */
  readonly unnamed?: string | undefined;
}

interface Changed {
  /** By offset. */
  readonly inserted: readonly (Insertion & { readonly line: number })[];
}

interface CoverageRange {
  startOffset: number;
  endOffset: number;
}

interface Report {
  readonly result: { readonly url: string; functions: { functionName: string; ranges: CoverageRange[] }[] }[];
  readonly 'source-map-cache'?: Readonly<Record<string, { readonly lineLengths?: number[] } | undefined>>;
}

/** Of each file, by its real path: what V8 counts by is its changed text. */
const changed = new Map<string, Changed>();

/** The text of a file is loaded with more in it. V8's report of what ran is put right when the process ends. */
export function noteInserted(file: string | undefined, before: string, inserted: readonly Insertion[]): void {
  const folder = process.env.NODE_V8_COVERAGE;
  if (!folder || file === undefined) return;
  if (changed.size === 0) process.on('exit', () => report(folder));
  const lineOf = (at: number) => before.slice(0, at).split('\n').length - 1;
  changed.set(file, {
    inserted: inserted.map(({ at, text, unnamed }) => ({ at, text, unnamed, line: lineOf(at) })),
  });
}

/** Why coverage of files with targets is not that of their own text; `undefined` where it is, or nobody asks for it. */
export function whyCoverageDiffers(): string | undefined {
  const has = (...flags: string[]) => process.execArgv.some((each) => flags.includes(each));
  const runsTests = has('--experimental-test-coverage');
  const isElsewhere = has('--test') && !has('--test-isolation=none', '--experimental-test-isolation=none');
  if (runsTests && !isElsewhere)
    return 'the tests run in the process that reports: run them with node --test, each file in a process of its own';
  if (process.env.NODE_V8_COVERAGE && !hasSoundSyncHooks())
    return `Node ${process.versions.node} loads ES modules through another thread: take Node 22.22.3, 24.11.1 or later`;
  return undefined;
}

/** Writes the report now, without what was inserted. Never throws. */
function report(folder: string): void {
  try {
    const { stopCoverage, takeCoverage } = process.getBuiltinModule('node:v8');
    const ending = `-${threadId}.json`;
    // V8 makes the folder with the first report.
    const list = () =>
      (existsSync(folder) ? readdirSync(folder) : []).filter(
        (name) => name.startsWith(`coverage-${process.pid}-`) && name.endsWith(ending),
      );
    const before = new Set(list());
    takeCoverage();
    // The next report would be of the changed texts.
    stopCoverage();
    for (const name of list()) if (!before.has(name)) correct(join(folder, name));
  } catch {
    // The report stays as V8 makes it.
  }
}

function correct(file: string): void {
  const report = JSON.parse(readFileSync(file, 'utf8')) as Report;
  for (const script of report.result) {
    const found = changedAt(script.url);
    if (found === undefined) continue;
    const back = backIn(found);
    // Of a source map beside it, through which some look at the offsets.
    const { lineLengths } = report['source-map-cache']?.[script.url] ?? {};
    for (const { line, text } of lineLengths ? found.inserted : [])
      if (lineLengths?.[line] !== undefined) lineLengths[line] -= text.length;
    script.functions = script.functions.flatMap((each) => {
      const [whole, ...blocks] = each.ranges.map((range) => ({
        ...range,
        startOffset: back(range.startOffset),
        endOffset: back(range.endOffset),
      }));
      // What was inserted has functions and branches, too.
      if (whole === undefined || whole.startOffset === whole.endOffset) return [];
      const own = blocks.filter(({ startOffset, endOffset }) => startOffset < endOffset);
      return [{ ...each, functionName: nameOf(each.functionName, whole, found), ranges: [whole, ...own] }];
    });
  }
  writeFileSync(file, JSON.stringify(report));
}

function nameOf(name: string, { startOffset }: CoverageRange, { inserted }: Changed): string {
  if (name === givenName) return 'default';
  if (name !== '') return name;
  return inserted.find(({ at, unnamed }) => unnamed !== undefined && at === startOffset)?.unnamed ?? name;
}

function changedAt(url: string): Changed | undefined {
  if (!url.startsWith('file:')) return undefined;
  const path = fileURLToPath(url.replace(/[?#].*$/s, ''));
  const exact = changed.get(path);
  if (exact !== undefined) return exact;
  try {
    return changed.get(realpathSync(path));
  } catch {
    return undefined;
  }
}

/** From an offset in the changed text to that in the text as it was. */
function backIn({ inserted }: Changed): (offset: number) => number {
  return (offset) => {
    let before = 0;
    for (const { at, text } of inserted) {
      if (at + before >= offset) break;
      // Within what was inserted: where that was put.
      if (at + before + text.length >= offset) return at;
      before += text.length;
    }
    return offset - before;
  };
}
