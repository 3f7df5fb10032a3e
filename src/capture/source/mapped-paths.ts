/** Conditions that never hold in Node. */
const foreignConditions = new Set(['types', 'browser', 'deno', 'bun', 'worker', 'react-native']);

/**
 * What an `exports` or `imports` map may give for a key, under any condition: which one holds is settled when the module
 * is loaded, and differs between `import` and `require`.
 */
export function mapped(map: unknown, key: string): string[] {
  if (typeof map === 'string' || Array.isArray(map)) return key === '.' ? leaves(map, '') : [];
  if (typeof map !== 'object' || map === null) return [];
  const entries = map as Record<string, unknown>;
  const isConditions = !Object.keys(entries).some((each) => each.startsWith('.') || each.startsWith('#'));
  if (isConditions) return key === '.' ? leaves(map, '') : [];
  if (key in entries) return leaves(entries[key], '');
  let best: { pattern: string; star: string } | undefined;
  for (const pattern of Object.keys(entries)) {
    const [before, after] = pattern.split('*');
    if (before === undefined || after === undefined) continue;
    const fits = key.startsWith(before) && key.endsWith(after) && key.length > before.length + after.length;
    const isLonger = !best || before.length > (best.pattern.split('*')[0] ?? '').length;
    if (fits && isLonger) best = { pattern, star: key.slice(before.length, key.length - after.length) };
  }
  return best ? leaves(entries[best.pattern], best.star) : [];
}

function leaves(value: unknown, star: string): string[] {
  if (typeof value === 'string') return [value.replaceAll('*', star)];
  if (Array.isArray(value)) return value.flatMap((each) => leaves(each, star));
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([condition, each]) =>
    foreignConditions.has(condition) ? [] : leaves(each, star),
  );
}
