/**
 * Hops of `X-Forwarded-For`, last one first: the last was written by the nearest proxy, the first by whoever liked to.
 * A hop is text to be judged, not yet an address.
 */
export function* xForwardedForHops(header: string): Generator<string> {
  let end = header.length;
  do {
    const comma = end === 0 ? -1 : header.lastIndexOf(',', end - 1);
    yield header.slice(comma + 1, end).trim();
    end = comma;
  } while (end >= 0);
}

/**
 * `for=` of each element of `Forwarded` (RFC 7239), last one first; an element without a readable one yields `''`.
 * It is split from its end, so that a quote left open by the client cannot swallow what a proxy appended.
 */
export function* forwardedHops(header: string): Generator<string> {
  let end = header.length;
  let quoted = false;
  for (let at = header.length - 1; at >= -1; at--) {
    const character = at < 0 ? ',' : header[at];
    if (character === '"') quoted = !quoted;
    else if (character === ',' && (!quoted || at < 0)) {
      yield forOf(header.slice(at + 1, end));
      end = at;
    }
  }
}

const forPair = /^\s*for\s*=\s*(?:"([^"\\]*)"|([^"\\\s]*))\s*$/i;

/** Addresses hold neither semicolons nor escapes, so an element with such a `for` is malformed for our purpose. */
function forOf(element: string): string {
  const found = element.split(';').flatMap((pair) => {
    const match = forPair.exec(pair);
    return match === null ? [] : [match[1] ?? match[2] ?? ''];
  });
  return found.length === 1 ? (found[0] ?? '') : '';
}
