import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';

/** A JSON document of the input, or the line that is none. */
export interface InputDocument {
  readonly line: number;
  readonly isJson: boolean;
  readonly document: unknown;
}

/**
 * JSON documents, one a line; or one that fills the whole input, where an array counts as its elements. A line that only looks
 * like the beginning of such a one is a bad line among others.
 */
export async function* readDocuments(file: string | undefined): AsyncGenerator<InputDocument> {
  const input = file === undefined ? process.stdin : createReadStream(file);
  // Opening is waited for, so that a missing file is an error here and not an event that nobody listens to.
  if (file !== undefined) await opened(input);
  let line = 0;
  let isFirst = true;
  let whole: Whole | undefined;
  for await (const text of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
    line++;
    if (whole !== undefined) {
      whole.texts.push(text);
      continue;
    }
    if (text.trim() === '') continue;
    if (isFirst && isOpening(text)) whole = { firstLine: line, texts: [text] };
    else yield* elementsOf(parse(text, line));
    isFirst = false;
  }
  if (whole !== undefined) yield* documentsOf(whole);
}

interface Whole {
  readonly firstLine: number;
  readonly texts: string[];
}

function* documentsOf({ firstLine, texts }: Whole): Generator<InputDocument> {
  const all = parse(texts.join('\n'), firstLine);
  if (all.isJson || !texts.some(isObject)) return yield* elementsOf(all);
  for (const [index, text] of texts.entries())
    if (text.trim() !== '') yield* elementsOf(parse(text, firstLine + index));
}

function* elementsOf(found: InputDocument): Generator<InputDocument> {
  if (!Array.isArray(found.document)) return yield found;
  for (const document of found.document as unknown[]) yield { ...found, document };
}

/** Whether a line is a document of its own. */
function isObject(text: string): boolean {
  const { document } = parse(text, 0);
  return typeof document === 'object' && document !== null;
}

/** The first line of a document over several lines, or an array. */
function isOpening(text: string): boolean {
  return /^\s*(\[|\{\s*$)/.test(text);
}

function parse(text: string, line: number): InputDocument {
  try {
    return { line, isJson: true, document: JSON.parse(text) as unknown };
  } catch {
    return { line, isJson: false, document: undefined };
  }
}

function opened(input: NodeJS.ReadableStream): Promise<void> {
  return new Promise((resolve, reject) => {
    input.once('open', () => resolve());
    input.once('error', reject);
  });
}
