import { textsIn, valuesIn } from './json-in-place.ts';

export interface SourceMap {
  readonly sources: readonly (string | null)[];
  readonly sourceRoot: string;
  readonly mappings: Buffer;
  /** The text of a source; `undefined` where the map does not hold it. */
  content(source: number): string | undefined;
  names(): readonly string[];
}

/** A map, or a part of one: where it begins in the text, lines and columns from 0. */
export interface MapPart {
  readonly line: number;
  readonly column: number;
  readonly map: SourceMap;
}

/** @throws an error that says what is wrong with it */
export function partsOf(json: Buffer): MapPart[] {
  const map = readInPlace(json);
  if (map !== undefined) return [{ line: 0, column: 0, map }];
  const whole = parsed(json);
  const { sections } = whole as { sections?: { offset?: { line: number; column: number }; map: unknown }[] };
  if (sections === undefined) return [{ line: 0, column: 0, map: mapOf(whole) }];
  if (!Array.isArray(sections)) throw damaged('its sections are no list');
  return sections.map(({ offset, map }) => {
    if (offset === undefined) throw damaged('its sections have no offset');
    return { line: offset.line, column: offset.column, map: mapOf(map) };
  });
}

/** The texts of the sources are most of a map, and one of them is wanted: no other is made. `undefined` where all has to be. */
function readInPlace(json: Buffer): SourceMap | undefined {
  const values = valuesIn(json);
  const mappings = values?.get('mappings');
  if (mappings?.[0] !== '"'.charCodeAt(0) || mappings.includes('\\')) return undefined;
  const value = (key: string): unknown => {
    const bytes = values?.get(key);
    return bytes && parsed(bytes);
  };
  try {
    const map = mapOf({
      mappings: mappings.subarray(1, -1),
      sources: value('sources'),
      sourceRoot: value('sourceRoot'),
    });
    return {
      ...map,
      content(source) {
        const texts = values?.get('sourcesContent');
        const text = texts && textsIn(texts, map.sources.length)?.[source];
        if (text !== undefined) return parsed(text) as string;
        return texts && mapOf({ ...map, sourcesContent: parsed(texts) }).content(source);
      },
      names: () => mapOf({ ...map, names: value('names') }).names(),
    };
  } catch {
    return undefined;
  }
}

function mapOf(json: unknown): SourceMap {
  const map = (json ?? {}) as Readonly<Record<string, unknown>>;
  const isText = (each: unknown) => each === null || typeof each === 'string';
  const mappings = typeof map.mappings === 'string' ? Buffer.from(map.mappings) : map.mappings;
  if (!Buffer.isBuffer(mappings) || !Array.isArray(map.sources) || !map.sources.every(isText))
    throw damaged('no sources, or no mappings');
  const texts = map.sourcesContent ?? [];
  if (!Array.isArray(texts) || !texts.every(isText)) throw damaged('its texts are no texts');
  return {
    mappings,
    sources: map.sources,
    sourceRoot: String(map.sourceRoot ?? ''),
    content: (source) => texts[source] ?? undefined,
    names: () => (map.names ?? []) as string[],
  };
}

function parsed(json: Buffer): unknown {
  try {
    return JSON.parse(json.toString());
  } catch {
    throw damaged('no JSON');
  }
}

function damaged(reason: string): Error {
  return new Error(`it is damaged: ${reason}`);
}
