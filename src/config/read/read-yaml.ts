import { createRequire } from 'node:module';
import type { Event } from 'js-yaml';
import type { RawPath } from '../check/flatten.ts';

type Yaml = typeof import('js-yaml');

/** A parsed text, or the first mistake in it. Never an excerpt of the text, which may hold a password. */
export type ParsedText =
  | { readonly ok: true; readonly value: unknown; readonly lineOf: (path: RawPath) => number | undefined }
  | { readonly ok: false; readonly reason: string; readonly line: number | undefined };

/** Parses YAML. The parser is loaded here, so that only applications with a YAML file pay for it. */
export function parseYaml(text: string): ParsedText {
  const yaml = createRequire(import.meta.url)('js-yaml') as Yaml;
  try {
    const value = isBlank(text)
      ? null
      : yaml.load(text, { schema: yaml.CORE_SCHEMA.withTags(yaml.mergeTag) });
    let events: Event[] | undefined;
    const lineOf = (path: RawPath) => {
      events ??= yaml.parseEvents(text, {});
      return lineIn(text, events, path, yaml);
    };
    return { ok: true, value, lineOf };
  } catch (error) {
    if (error instanceof yaml.YAMLException) {
      return { ok: false, reason: reasonOf(error.reason), line: error.mark && error.mark.line + 1 };
    }
    return { ok: false, reason: notYaml, line: undefined };
  }
}

const notYaml = 'is not valid YAML';

/** What mistakes the parser tells apart, in words that hold nothing of the text: its own quote names, which may be passwords. */
const mistakes: readonly (readonly [RegExp, string])[] = [
  [/nesting|maxDepth|maxAliases/, 'it is nested too deeply, or has too many aliases'],
  [/^unidentified alias/, 'a value that begins with * needs quotes, or the anchor of this alias is missing'],
  [/alias/, 'an alias cannot stand like this; a value that begins with * needs quotes'],
  [/anchor/, 'an anchor cannot stand like this; a value that begins with & needs quotes'],
  [
    /^unknown .*tag|tag handle|explicit tag|tag name|tag suffix/,
    'a value that begins with ! needs quotes, or its tag is not known',
  ],
  [/^duplicated mapping key/, 'a name stands there twice'],
  [/single document/, 'there is more than one document in it'],
  [/tab characters/, 'it is indented with tabs'],
  [/indentation/, 'the indentation does not fit'],
  [/quoted scalar/, 'a quote is not closed'],
  [/flow collection/, 'a bracket is not closed, or a comma is missing'],
  [/escape sequence|hexadecimal/, 'a backslash in double quotes is not followed by a known character'],
  [/mapping key|mapping entry|key-value/, 'a name without its colon, or a colon without a space'],
  [/merge/, 'a << that does not stand before a mapping'],
];

function reasonOf(text: string): string {
  const known = mistakes.find(([pattern]) => pattern.test(text));
  return known === undefined ? notYaml : `${notYaml}: ${known[1]}`;
}

/** Only comments and empty lines: the parser calls that an error. */
function isBlank(text: string): boolean {
  return text.split('\n').every((line) => /^\uFEFF?\s*(#.*)?$/.test(line));
}

/** Line, from 1, of the deepest part of `path` that stands in the text. */
function lineIn(text: string, events: Event[], path: RawPath, yaml: Yaml): number | undefined {
  const offset = offsetOf(text, events, path, yaml);
  return offset === undefined ? undefined : text.slice(0, offset).split('\n').length;
}

function offsetOf(text: string, events: Event[], path: RawPath, yaml: Yaml): number | undefined {
  const { EVENT_ID } = yaml;
  let next = 1;
  let found: number | undefined;

  const skip = (): void => {
    const event = events[next++];
    if (event?.type !== EVENT_ID.MAPPING && event?.type !== EVENT_ID.SEQUENCE) return;
    while (next < events.length && events[next]?.type !== EVENT_ID.POP) skip();
    next++;
  };

  for (const part of path) {
    const container = events[next++];
    let isThere = false;
    for (let index = 0; next < events.length && events[next]?.type !== EVENT_ID.POP; index++) {
      const event = events[next];
      if (container?.type === EVENT_ID.SEQUENCE) {
        isThere = index === part;
        if (isThere) found = startOf(event) ?? found;
      } else if (container?.type === EVENT_ID.MAPPING) {
        isThere = event?.type === EVENT_ID.SCALAR && yaml.getScalarValue(text, event) === String(part);
        if (isThere) found = startOf(event) ?? found;
        skip();
      }
      if (isThere) break;
      skip();
    }
    if (!isThere) break;
  }
  return found;
}

function startOf(event: Event | undefined): number | undefined {
  if (event === undefined) return undefined;
  if ('valueStart' in event) return event.valueStart;
  return 'start' in event ? event.start : undefined;
}
