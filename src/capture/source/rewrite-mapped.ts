import { existsSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { Expression, Program } from 'oxc-parser';
import { nearestManifest } from '../../ground/files.ts';
import {
  definedAt,
  findByNames,
  headsOf,
  type InText,
  placeOf,
  type Site,
  siteOf,
} from './definition-site.ts';
import { findPaths, wordsOf } from './find.ts';
import type { Insertion } from './insert-calls.ts';
import { entryFile } from './late-start.ts';
import { listName, mapUrl } from './listed-places.ts';
import { lineAt, type Parsed, parse, type TextKind } from './parse-text.ts';
import { rewrite, type SourceEvents, type SourceTarget } from './rewrite-text.ts';
import { scan } from './scan.ts';
import { lineStarts, type MappedSource, type Mapping, readMap, sourcesAt } from './source-map.ts';
import { core, type Definitions, isFunction } from './syntax.ts';
import type { TargetFiles } from './target-files.ts';
import { type Found, isProblem, type Problem } from './wrapper-place.ts';

/** A text that a compiler or bundler made, parsed when the first target is looked for in it. */
interface Built extends Parsed {
  readonly definitions: Definitions;
}

/** The text with the calls of those targets inserted whose sources its map names, and of its own; the text itself where there are none. */
export function rewriteMapped(
  file: string,
  text: string,
  kind: TextKind,
  sought: TargetFiles,
  baseDir: string,
  events: SourceEvents,
  own: readonly SourceTarget[] = [],
): string {
  return rewrite(file, text, kind, own, events, () => {
    try {
      return findMapped(file, text, kind, sought, baseDir, events);
    } catch (error) {
      events.unreadMap?.(file, error instanceof Error ? error.message : 'unknown error');
      return [];
    }
  });
}

/** Looks every target up whose source the map of the text names. */
export function findMapped(
  file: string,
  text: string,
  kind: TextKind,
  sought: TargetFiles,
  baseDir: string,
  events: SourceEvents,
): Insertion[] {
  const map = readMap(
    file,
    text,
    [...sought.keys()].map((path) => basename(path)),
  );
  if (map === undefined) return [];
  if (isProblem(map)) {
    events.unreadMap?.(file, map.problem);
    return [];
  }
  const roots = [baseDir, nearestManifest(dirname(file))?.folder ?? baseDir, process.cwd()];
  const read: { targets: readonly SourceTarget[]; sources: readonly (readonly (Sited | Problem)[])[] }[] = [];
  for (const [path, targets] of sought) {
    const sources = sourcesAt(map, path, roots, text).map((source) => sitesIn(source, path, targets, text));
    if (sources.length > 0) read.push({ targets, sources });
  }
  let built: Built | Problem | undefined;
  const build = (isWhole?: 'whole'): Built | Problem => {
    if (built !== undefined && !isWhole) return built;
    const sited = read
      .flatMap(({ sources }) => sources.flat())
      .flatMap((each) => (isProblem(each) ? [] : each));
    const wanted = {
      offsets: sited.flatMap(({ offsets }) => offsets),
      names: sited.flatMap((each) => ('site' in each ? [] : each.words)),
    };
    const parsed = parse(file, text, kind, isWhole ? undefined : wanted);
    if (isWhole && isProblem(parsed)) return parsed;
    built = isProblem(parsed) ? parsed : { ...parsed, definitions: scan(parsed.program, text) };
    return built;
  };
  const insertions: Insertion[] = [];
  for (const { targets, sources } of read)
    targets.forEach((target, index) => {
      const answers = sources.map((sites) => lookUp(sites[index] as Sited | Problem, target, text, build));
      const hits = answers.flatMap((each) => (isProblem(each) ? [] : each.hits));
      const [first] = hits;
      if (first === undefined) {
        const why = answers.filter((each) => isProblem(each)).find((each) => each !== dropped) ?? dropped;
        events.problem(target.id, why.problem, { file, isDropped: why === dropped });
        return;
      }
      const remarks = answers.flatMap((each) => (isProblem(each) ? [] : (each.remark ?? [])));
      if (hits.length > 1) remarks.unshift(`${hits.length} times`);
      const place = { file, remark: remarks.join(', ') || undefined };
      if (events.found(target.id, first.parameterNames, first.defaulted, place))
        for (const found of hits) insertions.push({ id: target.id, found });
    });
  return insertions;
}

const wayRound =
  'let it keep its functions (terser, swc: compress.inline and compress.reduce_funcs off), or declare it in code with publishEvent(options, fn)';
const dropped: Problem = {
  problem: `inlined or dropped by the bundler, nothing of it is left there: ${wayRound}`,
};
const ofAnotherBuild: Problem = {
  problem: 'the source map does not fit the file: it is that of another build',
};

interface Answer {
  readonly hits: Found[];
  readonly remark: string | undefined;
}

/** What the source says of a target, and where the map says that it is in the built text. */
type Sited = { readonly offsets: readonly number[] } & (
  | {
      readonly site: Site;
      /** Of what a factory returns, where its text shows that. */
      readonly returned: Site | undefined;
      readonly inSource: Found;
      readonly mappings: readonly Offsets[];
    }
  | {
      readonly names: readonly string[];
      readonly mappings: readonly Mapping[];
      readonly words: readonly string[];
    }
);

/** For each of the targets; the source is read once for all of them. */
function sitesIn(
  source: MappedSource,
  path: string,
  targets: readonly SourceTarget[],
  text: string,
): (Sited | Problem)[] {
  const content = source.content() ?? textOf(path);
  if (content === undefined) {
    const mappings = source.mappings();
    const names = source.names();
    return targets.map(({ functionPath }) => {
      if (mappings === undefined) return ofAnotherBuild;
      const { heads, root } = headsOf(functionPath, mappings, names, text);
      const words = wordsOf(functionPath).filter((word) => word !== root);
      return { names, mappings, words, offsets: heads.map(({ at }) => at) };
    });
  }
  const kind = { goal: 'unknown', typed: /\.[cm]?tsx?$/.test(path) } as const;
  const functionPaths = targets.map(({ functionPath }) => functionPath);
  const read = findPaths(path, content, kind, functionPaths);
  if (isProblem(read)) return targets.map(() => read);
  let mappings: readonly Offsets[] | undefined;
  return read.found.map((inSource) => {
    if (isProblem(inSource)) return inSource;
    const site = siteOf(read.program, inSource);
    if (site === undefined) return { problem: 'its definition cannot be followed through a source map' };
    if (mappings === undefined) {
      const mapped = source.mappings();
      if (mapped === undefined) return ofAnotherBuild;
      mappings = withOffsets(mapped, content);
    }
    const within = mappings.filter(({ from }) => from >= site.start && from <= site.end);
    const returned = returnedSite(read.program, inSource);
    return { site, returned, inSource, mappings, offsets: within.map(({ at }) => at) };
  });
}

function lookUp(
  sited: Sited | Problem,
  { functionPath }: SourceTarget,
  text: string,
  build: (isWhole?: 'whole') => Built | Problem,
): Answer | Problem {
  if (isProblem(sited)) return sited;
  if (!('site' in sited)) return lookUpNames(sited, functionPath, text, build);
  const { site, inSource, mappings } = sited;
  const built = build();
  if (isProblem(built)) return built;
  const places = placesOf(site, mappings, built);
  const elsewhere = mappings.find(
    ({ at, from }) =>
      from > site.bodyAt && from < site.end && !places.some(({ start, end }) => at >= start && at < end),
  );
  // Of a factory whose body stands in its callers, what it returned is still there.
  const returned = elsewhere && sited.returned;
  const inlined = returned === undefined ? [] : placesOf(returned, mappings, built);
  const factories = [...places];
  for (const { place, start, end } of inlined)
    if (!factories.some((each) => start >= each.start && start < each.end))
      places.push({ place: { ...place, isReturned: true }, start, end });
  if (places.length === 0)
    return elsewhere === undefined
      ? dropped
      : { problem: `inlined by the bundler (line ${lineAt(text, elsewhere.at)}): ${wayRound}` };
  const { parameterNames, defaulted } = inSource;
  const isInlined = elsewhere !== undefined && site.kind === 'function' && inlined.length === 0;
  return {
    hits: places.map(({ place }) => ({ place, parameterNames, defaulted })),
    remark: isInlined
      ? `also inlined by the bundler (line ${lineAt(text, elsewhere.at)}), where calls make no event: ${wayRound}`
      : undefined,
  };
}

function returnedSite(program: Program, { shown, parametersOf, ...found }: Found): Site | undefined {
  const isOther = shown !== undefined && parametersOf !== undefined && parametersOf.start > shown.start;
  if (!isOther || parametersOf.end > shown.end) return undefined;
  return siteOf(program, { ...found, place: { form: 'binding', at: 0, name: '' }, shown: parametersOf });
}

function lookUpNames(
  { mappings, names }: Extract<Sited, { names: unknown }>,
  functionPath: string,
  text: string,
  build: (isWhole?: 'whole') => Built | Problem,
): Answer | Problem {
  let built = build();
  if (isProblem(built)) return built;
  let found = findByNames(functionPath, mappings, names, built.program, text);
  // What a name stands for may be elsewhere.
  if (isProblem(found) && !built.isWhole) {
    built = build('whole');
    if (!isProblem(built)) found = findByNames(functionPath, mappings, names, built.program, text);
  }
  return isProblem(found) ? found : { hits: [found], remark: undefined };
}

function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}

/** `from`: the offset in the source. */
interface Offsets extends Mapping {
  readonly from: number;
}

function withOffsets(mappings: readonly Mapping[], content: string): Offsets[] {
  const starts = lineStarts(content);
  return mappings.map((each) => ({ ...each, from: (starts[each.line] ?? content.length) + each.column }));
}

interface Placed {
  readonly place: Found['place'];
  /** The function in the text. */
  readonly start: number;
  readonly end: number;
}

function placesOf(site: Site, mappings: readonly Offsets[], { program, definitions }: Built): Placed[] {
  const head = mappings.filter(({ from }) => from >= site.start && from <= site.bodyAt);
  // The name first, then what stands before it (`export async function`), nearest first, then what stands behind it.
  const distance = ({ from }: Offsets) =>
    from === site.nameAt ? 0 : from < site.nameAt ? site.nameAt - from : 1_000_000 + from - site.nameAt;
  const ranks = [...new Set(head.map(distance))].sort((a, b) => a - b);
  for (const rank of ranks) {
    const found = new Map<number, Placed>();
    for (const mapping of head.filter((each) => distance(each) === rank)) {
      const hit = definedAt(program, mapping.at);
      if (hit === undefined || !isOf(site, hit, mappings)) continue;
      const place = placeOf(hit, site.path, definitions);
      if (place !== undefined) found.set(hit.node.start, { place, start: hit.node.start, end: hit.node.end });
    }
    if (found.size > 0) return [...found.values()];
  }
  return [];
}

/** Whether the function was made of this definition: what is mapped within it comes from there. */
function isOf(site: Site, { node }: InText, mappings: readonly Offsets[]): boolean {
  if (site.kind === 'function' && !isFunction(core(node as Expression))) return false;
  const within = mappings.filter(({ at }) => at > node.start && at < node.end);
  return within.length === 0 || within.some(({ from }) => from >= site.nameAt && from <= site.end);
}

/** Whether this process may run what was built from files that are not there: one that is listed, Next.js' build, or an entry with a source map. */
export function runsBuild(baseDir: string): boolean {
  if (['.next/BUILD_ID', listName].some((file) => existsSync(join(baseDir, file)))) return true;
  const entry = entryFile();
  if (entry === undefined) return false;
  try {
    return existsSync(`${entry}.map`) || mapUrl(readFileSync(entry, 'utf8')) !== undefined;
  } catch {
    return false;
  }
}
