/** A `symbol` is also any character that the grammar does not know: the parser says why it is refused. */
export interface Token {
  readonly kind: 'name' | 'variable' | 'number' | 'string' | 'symbol' | 'end';
  /** The name without `#`, the content of a string, the digits of a number, the symbol. */
  readonly text: string;
  /** Offset of the first character. */
  readonly at: number;
}

const name = String.raw`([\p{ID_Start}$_][\p{ID_Continue}$]*)`;

/** In the order of the groups. Of strings as in SpEL: the quote itself is written twice, a backslash is an ordinary character. */
const kinds = ['name', 'variable', 'number', 'string', 'string', 'symbol'] as const;
const pattern = new RegExp(
  [
    String.raw`[\s\u200b\ufeff]+|${name}|#${name}|(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)`,
    `'((?:[^']|'')*)'(?!')|"((?:[^"]|"")*)"(?!")`,
    String.raw`(===|!==|=>|\?\.|\?:|\?\?|&&|\|\||\*\*|\+\+|--|[=!<>+\-*/%]=|.)`,
  ].join('|'),
  'gsu',
);

/** The last one is the only `end`. */
export function tokenize(text: string): readonly Token[] {
  const tokens: Token[] = [];
  for (const found of text.matchAll(pattern)) {
    const group = found.findIndex((part, index) => index > 0 && part !== undefined);
    const kind = kinds[group - 1];
    if (kind === undefined) continue;
    const part = found[group] as string;
    const quote = found[0].charAt(0);
    const content = kind === 'string' ? part.replaceAll(quote + quote, quote) : part;
    tokens.push({ kind, text: content, at: found.index });
  }
  tokens.push({ kind: 'end', text: '', at: text.length });
  return tokens;
}

/** What to write in place of what cannot stand where it stands. */
const instead: ReadonlyMap<string, string> = new Map([
  ['=', '== to compare: there is no assignment'],
  ['===', '=='],
  ['!==', '!='],
  ['&', '&&'],
  ['|', '||'],
  ['--', '- -'],
  ["'", "both quotes of '…'"],
  ['"', 'both quotes of "…"'],
  ['`', "'…'"],
  ['#', 'a name behind it, as in #result, and no #{…} around an expression'],
  ['=>', 'a function in place of the text, where the configuration is code'],
  ['between', 'a >= 1 && a <= 9'],
  ['in', 'list.includes(value)'],
]);

export function reasonAgainst({ kind, text }: Token, missing: string | undefined): string {
  const other = kind === 'symbol' || kind === 'name' ? instead.get(text) : undefined;
  const hint = other === undefined ? (missing ?? 'expressions only read') : `write ${other}`;
  const found = `"${kind === 'variable' ? '#' : ''}${text}" is not expected here`;
  return `${kind === 'end' ? 'it is not complete' : found}: ${hint}.`;
}
