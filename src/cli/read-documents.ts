import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';

/** A JSON document of the input, or the line that is none. */
export interface InputDocument {
  readonly line: number;
  readonly isJson: boolean;
  readonly document: unknown;
}

/** JSON documents, one a line; or one that fills the whole input, where an array counts as its elements. */
export async function* readDocuments(file: string | undefined): AsyncGenerator<InputDocument> {
  const input = file === undefined ? process.stdin : createReadStream(file);
  // Opening is waited for, so that a missing file is an error here and not an event that nobody listens to.
  if (file !== undefined) await opened(input);
  let line = 0;
  let whole: string[] | undefined;
  for await (const text of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
    line++;
    if (whole !== undefined) {
      whole.push(text);
      continue;
    }
    if (text.trim() === '') continue;
    const found = parse(text, line);
    if (found.isJson && !Array.isArray(found.document)) yield found;
    else if (isOpening(text)) whole = [text];
    else yield found;
  }
  if (whole === undefined) return;
  const { isJson, document } = parse(whole.join('\n'), 1);
  if (!isJson || !Array.isArray(document)) yield { line: 1, isJson, document };
  else for (const one of document) yield { line: 1, isJson: true, document: one };
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
