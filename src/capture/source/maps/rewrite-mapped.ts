import { readFileSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import type { Program } from 'oxc-parser';
import { nearestManifest } from '../../../ground/files/manifest.ts';
import type { Definitions } from '../find/definitions.ts';
import { finder } from '../find/find.ts';
import { scan } from '../find/scan.ts';
import { type Insertion, insert, isMarked } from '../insert-calls.ts';
import { parse, type TextKind } from '../parse-text.ts';
import type { SourceEvents, SourceTarget } from '../rewrite-text.ts';
import type { TargetFiles } from '../target-files.ts';
import { type Found, isProblem, type Problem } from '../wrapper-place.ts';
import { type Site, siteOf } from './definition-site.ts';
import { definedAt, type InText, placeOf } from './function-at.ts';
import { lineStarts, type MappedSource, type Mapping, sourcesAt } from './mappings.ts';
import { readMap } from './read-map.ts';

/** A text that a compiler or bundler made, parsed when the first target is looked for in it. */
interface Built {
  readonly program: Program;
  readonly definitions: Definitions;
}

/** The text with the calls of those targets inserted whose sources its map names; the text itself where there are none. */
export function rewriteMapped(
  file: string,
  text: string,
  kind: TextKind,
  sought: TargetFiles,
  baseDir: string,
  events: SourceEvents,
): string {
  try {
    if (isMarked(text)) return text;
    const insertions = findMapped(file, text, kind, sought, baseDir, events);
    return insertions.length === 0 ? text : insert(text, insertions, file);
  } catch (error) {
    events.unreadMap?.(file, error instanceof Error ? error.message : 'unknown error');
    return text;
  }
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
  let built: Built | Problem | undefined;
  const build = (): Built | Problem => {
    if (built !== undefined) return built;
    const parsed = parse(file, text, kind);
    built = isProblem(parsed) ? parsed : { program: parsed.program, definitions: scan(parsed.program, text) };
    return built;
  };
  const insertions: Insertion[] = [];
  for (const [path, targets] of sought) {
    const sources = sourcesAt(map, path, roots, text);
    if (sources.length === 0) continue;
    for (const target of targets) {
      const found = sources.map((source) => lookUp(source, path, target, build));
      const hits = found.flatMap((each) => (isProblem(each) ? [] : each));
      const [first] = hits;
      const problem = found.find(isProblem)?.problem ?? 'not in its source map';
      if (first === undefined) events.problem(target.id, problem, file);
      else if (events.found(target.id, first.parameterNames, first.defaulted, file))
        for (const each of hits) insertions.push({ id: target.id, found: each });
    }
  }
  return insertions;
}

function lookUp(
  source: MappedSource,
  path: string,
  { functionPath }: SourceTarget,
  build: () => Built | Problem,
): Found[] | Problem {
  const content = source.content ?? textOf(path);
  if (content === undefined) return { problem: 'its source is neither there nor in the source map' };
  const parsed = parse(path, content, { goal: 'unknown', typed: /\.[cm]?tsx?$/.test(path) });
  if (isProblem(parsed)) return parsed;
  const inSource = finder(parsed.program, content)(functionPath);
  if (isProblem(inSource)) return inSource;
  const site = siteOf(parsed.program, inSource);
  if (site === undefined) return { problem: 'its definition cannot be followed through a source map' };
  const mappings = source.mappings();
  if (mappings === undefined)
    return { problem: 'the source map does not fit the file: it is that of another build' };
  const built = build();
  if (isProblem(built)) return built;
  const hits = placesOf(site, sourceOffsets(mappings, content), built);
  if (hits.length === 0) return { problem: 'inlined by the bundler' };
  const { parameterNames, defaulted } = inSource;
  return hits.map((place) => ({ place, parameterNames, defaulted }));
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

function sourceOffsets(mappings: readonly Mapping[], content: string): Offsets[] {
  const starts = lineStarts(content);
  return mappings.map((each) => ({ ...each, from: (starts[each.line] ?? content.length) + each.column }));
}

function placesOf(
  site: Site,
  mappings: readonly Offsets[],
  { program, definitions }: Built,
): Found['place'][] {
  const head = mappings.filter(({ from }) => from >= site.start && from <= site.bodyAt);
  // The name first, then what stands before it (`export async function`), nearest first, then what stands behind it.
  const distance = ({ from }: Offsets) =>
    from === site.nameAt ? 0 : from < site.nameAt ? site.nameAt - from : 1_000_000 + from - site.nameAt;
  const ranks = [...new Set(head.map(distance))].sort((a, b) => a - b);
  for (const rank of ranks) {
    const found = new Map<number, InText>();
    for (const mapping of head.filter((each) => distance(each) === rank)) {
      const hit = definedAt(program, mapping.at);
      if (hit !== undefined && isOf(site, hit, mappings)) found.set(hit.node.start, hit);
    }
    const places = [...found.values()].flatMap((hit) => placeOf(hit, site.path, definitions) ?? []);
    if (places.length > 0) return places;
  }
  return [];
}

/** Whether the function was made of this definition: what is mapped within it comes from there. */
function isOf(site: Site, { node }: InText, mappings: readonly Offsets[]): boolean {
  const within = mappings.filter(({ at }) => at > node.start && at < node.end);
  return within.length === 0 || within.some(({ from }) => from >= site.nameAt && from <= site.end);
}
