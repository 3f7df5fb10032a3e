import { readFileSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import type { Class, Expression, Node, Program } from 'oxc-parser';
import { nearestManifest } from '../../ground/files.ts';
import { finder, findPaths, scan, wordsOf } from './find.ts';
import type { Insertion } from './insert-calls.ts';
import { lineAt, parse, type TextKind } from './parse-text.ts';
import { rewrite, type SourceEvents, type SourceTarget } from './rewrite-text.ts';
import { lineStarts, type MappedSource, type Mapping, readMap, sourcesAt } from './source-map.ts';
import {
  type AnyFunction,
  beforeStatics,
  children,
  core,
  isClass,
  isFunction,
  isNameless,
  keyOf,
} from './syntax.ts';
import type { TargetFiles } from './target-files.ts';
import { type Found, isProblem, messageOf, type Place, type Problem } from './wrapper-place.ts';

/** A compiled or bundled text, parsed when the first target is looked for in it. */
interface Built {
  readonly program: Program;
  readonly isWhole: boolean;
  readonly definitions: Definitions;
}

type Definitions = ReturnType<
  typeof scan
>; /** Inserts the calls of targets whose sources the map names, and of the file's `own`; returns the text itself without any. */
export function rewriteMapped(
  file: string,
  text: string,
  kind: TextKind,
  pending: TargetFiles,
  baseDir: string,
  events: SourceEvents,
  own: readonly SourceTarget[] = [],
): string {
  return rewrite(file, text, kind, own, events, () => {
    try {
      return findMapped(file, text, kind, pending, baseDir, events);
    } catch (error) {
      events.unreadMap?.(file, messageOf(error));
      return [];
    }
  });
}

export function findMapped(
  file: string,
  text: string,
  kind: TextKind,
  pending: TargetFiles,
  baseDir: string,
  events: SourceEvents,
): Insertion[] {
  const map = readMap(
    file,
    text,
    [...pending.keys()].map((path) => basename(path)),
  );
  if (map === undefined) return [];
  if (isProblem(map)) {
    events.unreadMap?.(file, map.problem);
    return [];
  }
  const roots = [baseDir, nearestManifest(dirname(file))?.folder ?? baseDir, process.cwd()];
  const read: { targets: readonly SourceTarget[]; sources: readonly (readonly (Sited | Problem)[])[] }[] = [];
  for (const [path, targets] of pending) {
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
  'make it keep its functions (terser, swc: compress.inline and compress.reduce_funcs off), or declare the event in code with publishEvent(options, fn)';
const dropped: Problem = {
  problem: `inlined or dropped by the bundler: ${wayRound}`,
};
const ofAnotherBuild: Problem = {
  problem: 'the source map belongs to another build of the file',
};

interface Answer {
  readonly hits: Found[];
  readonly remark: string | undefined;
}

/** A target's definition in the source, and where the map locates it in the built text. */
type Sited = { readonly offsets: readonly number[] } & (
  | {
      readonly site: Site;
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

/** One entry for each target; the source is read once for all. */
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
  // A factory inlined into its callers: its result still exists.
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
  // The definition of a name may be in a part that was left out.
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
  readonly start: number;
  readonly end: number;
}

function placesOf(site: Site, mappings: readonly Offsets[], { program, definitions }: Built): Placed[] {
  const head = mappings.filter(({ from }) => from >= site.start && from <= site.bodyAt);
  // Prefer the name, then the text before it (`export async function`), nearest first, then the text after it.
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

/** Whether the function was compiled from this definition: the mappings inside it lead there. */
function isOf(site: Site, { node }: InText, mappings: readonly Offsets[]): boolean {
  if (site.kind === 'function' && !isFunction(core(node as Expression))) return false;
  const within = mappings.filter(({ at }) => at > node.start && at < node.end);
  return within.length === 0 || within.some(({ from }) => from >= site.nameAt && from <= site.end);
}

interface Site {
  /** The kind of definition: a function, or a value that the text does not show to be one. */
  readonly kind: 'function' | 'value';
  /** The first character of the defining statement or member. */
  readonly start: number;
  readonly nameAt: number;
  readonly name: string;
  readonly bodyAt: number;
  readonly end: number;
  readonly path: readonly string[];
}

/** The nodes that contain the range, from the program down; the outer one first if two have one range. */
function chainTo(program: Program, start: number, end: number): Node[] {
  const chain: Node[] = [program];
  for (let next: Node | undefined = program; next !== undefined; ) {
    next = children(next).find(
      (child) => child.start <= start && child.end >= end && child.end > child.start,
    );
    if (next !== undefined) chain.push(next);
  }
  return chain;
}

function siteOf(program: Program, { place, shown }: Found): Site | undefined {
  const isIn =
    place.form !== 'value' ||
    (shown !== undefined &&
      (place.path.length === 0
        ? shown.start === place.start && shown.end === place.end
        : shown.start >= place.start && shown.end <= place.end));
  if (isIn && shown === undefined) return undefined;
  const { start, end } =
    isIn && shown !== undefined ? shown : place.form === 'value' ? place : { start: 0, end: 0 };
  const chain = chainTo(program, start, end);
  const at = chain.findIndex(
    (node) => node.start === start && node.end === end && (!isIn || isFunction(node)),
  );
  const node = chain[at];
  if (node === undefined) return undefined;
  const body = isFunction(node) ? node.body : undefined;
  const path = !isIn && place.form === 'value' ? place.path : [];
  const base = {
    kind: isIn ? 'function' : 'value',
    bodyAt: body?.start ?? node.start,
    end: node.end,
    path,
  } as const;
  if (node.type === 'FunctionDeclaration' && node.id)
    return { ...base, start: statementStart(chain, at), nameAt: node.id.start, name: node.id.name };
  for (let above = at - 1; above > 0; above--) {
    const named = nameIn(chain[above] as Node);
    if (named !== undefined)
      return { ...base, start: statementStart(chain, above), nameAt: named.start, name: nameOf(named) };
    // A name beyond a function or block belongs to another definition.
    const parent = chain[above] as Node;
    if (isFunction(parent) || /Statement$|^Program$/.test(parent.type)) break;
  }
  return { ...base, start: statementStart(chain, at), nameAt: node.start, name: '' };
}

function nameIn(node: Node): Node | undefined {
  switch (node.type) {
    case 'MethodDefinition':
    case 'PropertyDefinition':
    case 'AccessorProperty':
    case 'Property':
      return node.key;
    case 'VariableDeclarator':
      return node.id;
    case 'AssignmentExpression':
      return node.left.type === 'MemberExpression' ? node.left.property : node.left;
    default:
      return undefined;
  }
}

function nameOf(node: Node): string {
  return node.type === 'Identifier' || node.type === 'PrivateIdentifier' ? node.name : '';
}

function statementStart(chain: readonly Node[], at: number): number {
  let start = (chain[at] as Node).start;
  for (let above = at - 1; above > 0; above--) {
    const { type, start: next } = chain[above] as Node;
    const isFirst =
      type !== 'VariableDeclaration' ||
      (chain[above] as { declarations: Node[] }).declarations[0] === chain[above + 1];
    if (!/^(VariableDeclaration|Export\w+Declaration|ExpressionStatement)$/.test(type) || !isFirst) break;
    start = next;
  }
  return start;
}

interface InText {
  readonly node: Node;
  readonly chain: readonly Node[];
}

/** The definition at an offset: of its name, or of the first character of its function. */
function definedAt(program: Program, offset: number): InText | undefined {
  const chain = chainTo(program, offset, offset + 1);
  for (let at = chain.length - 1; at > 0; at--) {
    const node = chain[at] as Node;
    const found = definedIn(node, offset);
    if (found !== undefined) return { node: found, chain: chainTo(program, found.start, found.end) };
    if (isFunction(node) && node.body && offset >= node.body.start && offset > node.start) return undefined;
  }
  return undefined;
}

function definedIn(node: Node, offset: number): Node | undefined {
  if (isFunction(node)) {
    const isArrowOfExpression = node.body && node.body.type !== 'BlockStatement';
    return node.body && (offset < node.body.start || (isArrowOfExpression && offset === node.start))
      ? node
      : undefined;
  }
  switch (node.type) {
    case 'ExportNamedDeclaration':
    case 'ExportDefaultDeclaration': {
      const inner = node.declaration;
      return inner && offset < inner.start ? definedIn(inner, inner.start) : undefined;
    }
    case 'VariableDeclaration': {
      const [first] = node.declarations;
      return first && offset < first.start ? (first.init ?? undefined) : undefined;
    }
    case 'ExpressionStatement':
      return undefined;
    case 'MethodDefinition':
    case 'PropertyDefinition':
    case 'AccessorProperty':
    case 'Property':
      return offset < (node.value?.start ?? 0) && offset <= node.key.end
        ? (node.value ?? undefined)
        : undefined;
    case 'VariableDeclarator':
      return offset < node.id.end ? (node.init ?? undefined) : undefined;
    case 'AssignmentExpression':
      return offset < node.left.end ? node.right : undefined;
    default:
      return undefined;
  }
}

/** Where the wrapper of this function goes; `undefined` if it cannot have one. */
function placeOf(
  { node, chain }: InText,
  path: readonly string[],
  definitions: Definitions,
): Place | undefined {
  const value = core(node as Expression | Class);
  if (node.type === 'FunctionDeclaration') {
    const all = [...definitions.byName.values()].flat();
    const declared = all.find((each) => each.kind === 'declaration' && each.node === node);
    if (declared?.kind !== 'declaration') return undefined;
    return node.id ? { form: 'binding', at: declared.at, name: node.id.name } : undefined;
  }
  const parent = chain.findLast(
    (each) => each !== node && each.start <= node.start && each.end >= node.end && nameIn(each) !== undefined,
  );
  const owner = parent && chain[chain.indexOf(parent) - 1];
  if (parent?.type === 'MethodDefinition' && parent.value === node) {
    const key = keyOf(parent.key, parent.computed);
    const holder = chain.findLast((each) => isClass(each) && each.body.body.includes(parent));
    if (key === undefined || key.startsWith('#') || parent.kind !== 'method' || !holder) return undefined;
    return { form: 'method', at: beforeStatics(holder as Class), key, isStatic: parent.static };
  }
  if (parent?.type === 'Property' && parent.value === node && (parent.method || parent.kind !== 'init')) {
    const key = keyOf(parent.key, parent.computed);
    if (key === undefined || parent.kind !== 'init' || owner?.type !== 'ObjectExpression') return undefined;
    return around(owner, [key], undefined, definitions);
  }
  if (path.length > 0 && isClass(value)) return undefined;
  return around(node, path, parent && directName(parent, node as AnyFunction), definitions);
}

function around(
  node: Node,
  path: readonly string[],
  name: string | undefined,
  { openEnds }: Definitions,
): Place {
  return { form: 'value', start: node.start, end: node.end, path, name, open: openEnds.has(node.end) };
}

function directName(parent: Node, node: AnyFunction): string | undefined {
  if (!isFunction(node) || !isNameless(node)) return undefined;
  switch (parent.type) {
    case 'VariableDeclarator':
      return parent.init === node && parent.id.type === 'Identifier' ? parent.id.name : undefined;
    case 'AssignmentExpression':
      return parent.right === node && parent.left.type === 'Identifier' ? parent.left.name : undefined;
    case 'Property':
    case 'PropertyDefinition':
      return parent.value === node ? keyOf(parent.key, parent.computed) : undefined;
    default:
      return undefined;
  }
}

/** For a source without text: finds the definition by its minified name, through the source names in the map. */
function findByNames(
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
    // One minified name has many uses: the hit must come from this source.
    if (range === undefined || !mappings.some(({ at }) => at >= range.start && at < range.end)) continue;
    return { ...found, parameterNames: namesBefore(found, program, sourceNames) };
  }
  return {
    problem: `its source is missing, also from the source map, whose names do not lead to ${functionPath}`,
  };
}

/** Where the built text has the first name of the path, by the source's names. */
function headsOf(
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
