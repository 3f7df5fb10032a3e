/**
 * A text without what spellings of one value differ in: forms of characters, upper and lower case, space around it. Upper case,
 * as a lower-case sigma depends on what follows it.
 */
export function fold(text: string): string {
  return text.normalize('NFKC').toUpperCase().trim();
}

const letterOrDigit = /[\p{L}\p{N}]/u;

/** Whether `part` stands in `text` with no letter or digit beside it. */
export function holdsWord(text: string, part: string): boolean {
  for (let at = text.indexOf(part); at >= 0; at = text.indexOf(part, at + 1)) {
    if (!isInWord(text, at - 1) && !isInWord(text, at + part.length)) return true;
  }
  return false;
}

function isInWord(text: string, at: number): boolean {
  return at >= 0 && at < text.length && letterOrDigit.test(text.charAt(at));
}
