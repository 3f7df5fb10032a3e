/** The candidate that was most likely meant, or `undefined` when none is within `most` edits. */
export function nearestName(name: string, candidates: Iterable<string>, most?: number): string | undefined {
  const wanted = squash(name.slice(0, 200));
  const last = wanted.slice(wanted.lastIndexOf('.') + 1);
  let best: string | undefined;
  let bestDistance = most ?? Math.max(2.5, Math.floor(last.length / 3));
  for (const candidate of candidates) {
    const text = squash(candidate);
    let distance = editsBetween(wanted, text);
    // The right word in the wrong place, as `svc.topic`, and the beginning of a name, as `svc.broker.async`.
    if (text.endsWith(`.${last}`)) distance = Math.min(distance, 1.5);
    else if (last.length > 3 && text.startsWith(wanted)) distance = Math.min(distance, 2.5);
    if (best === undefined ? distance <= bestDistance : distance < bestDistance) {
      [best, bestDistance] = [candidate, distance];
    }
  }
  return best;
}

/** Spelling that people mix up: `bootstrap_servers`, `bootstrapServers`, `bootstrap-servers`. */
function squash(name: string): string {
  return name.toLowerCase().replace(/[-_]/g, '');
}

/** Edit distance in which two swapped neighbours count as one edit. */
function editsBetween(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1];
      let cost = Math.min((last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (last[j - 1] ?? 0) + (same ? 0 : 1));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        cost = Math.min(cost, (beforeLast[j - 2] ?? 0) + 1);
      }
      row.push(cost);
    }
    [beforeLast, last] = [last, row];
  }
  return last[b.length] ?? 0;
}
