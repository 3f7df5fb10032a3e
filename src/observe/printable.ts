/**
 * What may steer a terminal or show text in another order than it has: control characters, directions (bidi), marks that
 * cannot be seen, separators of lines, halves of characters. The joiners U+200C and U+200D stay: words of some languages and emoji are made of them.
 */
const unprintable = /(?!\u200c|\u200d)[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;
/** The same, but for the line ends that JSON with an indent has between its values: within texts it escapes them itself. */
const unprintableInJson = /(?!\u200c|\u200d|\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** A text from elsewhere, safe for a terminal and on one line: each character that is not is shown as `\u202e`. */
export function printable(text: string): string {
  return text.replace(unprintable, escaped);
}

/** A value as JSON that is safe for a terminal. Whoever parses it gets the same value: the escapes are those of JSON. */
export function printableJson(value: unknown, indent?: number): string {
  return JSON.stringify(value, null, indent).replace(unprintableInJson, escaped);
}

/** A long text without its middle: names come first, reasons last. */
export function cutMiddle(text: string, most: number): string {
  if (text.length <= most) return text;
  return `${text.slice(0, Math.ceil(most / 2))}…${text.slice(-Math.floor(most / 2))}`;
}

/** By UTF-16 units, as JSON does. */
function escaped(character: string): string {
  let text = '';
  for (let index = 0; index < character.length; index++)
    text += `\\u${character.charCodeAt(index).toString(16).padStart(4, '0')}`;
  return text;
}
