const comment = 'sourceMappingURL=';

/** What the last comment of a text names as its map; `undefined` where it names none. Not a search through all of the text. */
export function mapUrl(text: string): string | undefined {
  const at = text.lastIndexOf(comment);
  if (at === -1 || !/\/[/*][#@][ \t]$/.test(text.slice(Math.max(0, at - 4), at))) return undefined;
  const [url = ''] = /^[^\s*]*/.exec(text.slice(at + comment.length)) ?? [];
  return url === '' ? undefined : url;
}
