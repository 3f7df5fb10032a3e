/** The names most like `wanted`, best first: what a person may have meant. At most `count`; none when nothing is near. */
export function nearest(wanted: string, names: Iterable<string>, count = 3): string[] {
  const limit = Math.max(2, Math.floor(wanted.length / 3));
  const near: { name: string; distance: number }[] = [];
  for (const name of new Set(names)) {
    if (name === wanted) continue;
    const distance = howFar(wanted.toLowerCase(), name.toLowerCase(), limit);
    if (distance <= limit) near.push({ name, distance });
  }
  near.sort((a, b) => a.distance - b.distance || (a.name < b.name ? -1 : 1));
  return near.slice(0, count).map((entry) => entry.name);
}

/** ` (did you mean a, b?)`, or nothing. */
export function didYouMean(wanted: string, names: Iterable<string>): string {
  const near = nearest(wanted, names);
  return near.length === 0 ? '' : ` (did you mean ${near.join(', ')}?)`;
}

/** One name that ends in the other (`create`, `OrderService.create`) is near, however long the rest is. */
function howFar(a: string, b: string, limit: number): number {
  const lastOf = (path: string) => path.slice(path.lastIndexOf('.') + 1);
  if (a.length > 3 && (b.endsWith(`.${a}`) || a.endsWith(`.${b}`))) return 1;
  if (a.includes('.') && b.includes('.') && lastOf(a) === lastOf(b)) return Math.min(1, limit);
  if (Math.abs(a.length - b.length) > limit) return limit + 1;
  return editDistance(a, b);
}

/** Insertions, deletions, replacements and swaps of neighbours that make `b` of `a`. */
function editDistance(a: string, b: string): number {
  let before: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1];
      let cost = Math.min(at(last, j) + 1, at(row, j - 1) + 1, at(last, j - 1) + (same ? 0 : 1));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        cost = Math.min(cost, at(before, j - 2) + 1);
      row.push(cost);
    }
    before = last;
    last = row;
  }
  return at(last, b.length);
}

function at(row: number[], index: number): number {
  return row[index] ?? Number.POSITIVE_INFINITY;
}
