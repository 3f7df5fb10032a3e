/** A text inside a text inside a text, as JSON in a URL in JSON. */
const mostLevels = 3;
const mostReadings = 24;
const mayBeEscaped = /[\\%&+]/;

/**
 * What a text says where it is one of JSON, a URL or HTML: `O\"Brien`, `a%40b`, `a&#64;b`. Empty where nothing in it is escaped.
 */
export function readingsOf(text: string): readonly string[] {
  if (!mayBeEscaped.test(text)) return [];
  const readings = new Set<string>();
  let level = [text];
  for (let depth = 0; depth < mostLevels && level.length > 0; depth++) {
    const next: string[] = [];
    for (const each of level) {
      for (const decode of decoders) {
        const reading = decode(each);
        if (reading === each || reading === text || readings.has(reading)) continue;
        if (readings.size === mostReadings) return [...readings];
        readings.add(reading);
        next.push(reading);
      }
    }
    level = next;
  }
  return [...readings];
}

const controls: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', b: '\b', f: '\f' };
const entities: Readonly<Record<string, string>> = {
  ...{ amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0' },
  ...{ commat: '@', period: '.', plus: '+', colon: ':', sol: '/', lowbar: '_', num: '#' },
};

function unescapeJson(text: string): string {
  return text.replace(
    /\\(?:u\{([0-9a-f]{1,6})\}|u([0-9a-f]{4})|x([0-9a-f]{2})|([^ux]))/gi,
    (whole, braced?: string, four?: string, two?: string, other?: string) => {
      const code = braced ?? four ?? two;
      if (code !== undefined) return characterOf(Number.parseInt(code, 16)) ?? whole;
      return controls[other ?? ''] ?? other ?? whole;
    },
  );
}

function unescapeUrl(text: string): string {
  return text.replace(/(?:%[0-9a-f]{2})+/gi, (bytes) =>
    Buffer.from(bytes.replaceAll('%', ''), 'hex').toString(),
  );
}

function unescapeForm(text: string): string {
  return unescapeUrl(text.replaceAll('+', ' '));
}

function unescapeHtml(text: string): string {
  return text.replace(
    /&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|([a-z]{2,6}));?/gi,
    (whole, decimal?: string, hex?: string, name?: string) => {
      if (name !== undefined) return entities[name.toLowerCase()] ?? whole;
      return characterOf(decimal === undefined ? Number.parseInt(hex ?? '', 16) : Number(decimal)) ?? whole;
    },
  );
}

function characterOf(code: number): string | undefined {
  return code <= 0x10_ffff ? String.fromCodePoint(code) : undefined;
}

const decoders = [unescapeJson, unescapeUrl, unescapeForm, unescapeHtml];

/** Shorter texts stand by chance in the Base64 of another. */
const shortestEncoded = 8;
const mayBeEncoded = /[A-Za-z0-9+/_-]{10}/;

/** Whether a text may hold another one of at least eight characters in Base64 or hexadecimal. */
export function mayHoldEncoded(text: string): boolean {
  return mayBeEncoded.test(text);
}

/**
 * The parts that a text has in any Base64 or hexadecimal form of a longer text that holds it: Base64 begins at any of three places,
 * and the first and last characters depend on what stands around.
 */
export function encodingsOf(text: string): readonly string[] {
  if (text.length < shortestEncoded) return [];
  const bytes = Buffer.from(text);
  const parts = [bytes.toString('hex')];
  for (let before = 0; before < 3; before++) {
    const base64 = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64url');
    const first = Math.ceil((before * 4) / 3);
    const end = Math.floor(((before + bytes.length) * 4) / 3);
    const part = base64.slice(first, end);
    parts.push(part);
    if (/[-_]/.test(part)) parts.push(part.replaceAll('-', '+').replaceAll('_', '/'));
  }
  return parts;
}
