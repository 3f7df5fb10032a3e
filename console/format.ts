const whole = new Intl.NumberFormat('en');
const short = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

/** `null`: unknown. */
export const count = (value: number | null | undefined): string =>
  value === null || value === undefined ? '–' : value < 100_000 ? whole.format(value) : short.format(value);

export const rate = (perSecond: number | undefined): string =>
  perSecond === undefined
    ? '–'
    : `${perSecond === 0 ? '0' : perSecond < 10 ? perSecond.toFixed(1) : count(Math.round(perSecond))}/s`;

export const milliseconds = (ms: number | null | undefined): string =>
  ms === null || ms === undefined
    ? '–'
    : ms < 10
      ? `${ms.toFixed(1)} ms`
      : ms < 10_000
        ? `${count(Math.round(ms))} ms`
        : duration(ms);

/** The two largest units. */
export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return '–';
  const seconds = Math.floor(ms / 1_000);
  const units = [
    [86_400, 'd'],
    [3_600, 'h'],
    [60, 'min'],
    [1, 's'],
  ] as const;
  const parts: string[] = [];
  let left = seconds;
  for (const [size, name] of units) {
    const value = Math.floor(left / size);
    left -= value * size;
    if (value > 0 || (name === 's' && parts.length === 0)) parts.push(`${value} ${name}`);
  }
  return parts.slice(0, 2).join(' ');
}

export function bytes(value: number): string {
  if (value < 1_000) return `${value} B`;
  return value < 1e6
    ? `${(value / 1e3).toFixed(1)} kB`
    : value < 1e9
      ? `${(value / 1e6).toFixed(1)} MB`
      : `${(value / 1e9).toFixed(1)} GB`;
}

export const clock = (ms: number): string => new Date(ms).toLocaleTimeString('en-GB');
export const percent = (share: number): string => `${(Math.floor(share * 10_000) / 100).toFixed(2)} %`;
export const plural = (value: number, word: string): string =>
  `${count(value)} ${word}${value === 1 ? '' : 's'}`;
