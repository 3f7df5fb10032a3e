import { editDistance } from '../../ground/edit-distance.ts';

/** The candidate that was most likely meant, or `undefined` when none is within `most` edits. */
export function nearestName(name: string, candidates: Iterable<string>, most?: number): string | undefined {
  const wanted = squash(name.slice(0, 200));
  const last = wanted.slice(wanted.lastIndexOf('.') + 1);
  let best: string | undefined;
  let bestDistance = most ?? Math.max(2.5, Math.floor(last.length / 3));
  for (const candidate of candidates) {
    const text = squash(candidate);
    let distance = editDistance(wanted, text);
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
