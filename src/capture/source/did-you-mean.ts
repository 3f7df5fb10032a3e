import { editDistance } from '../../ground/edit-distance.ts';

/** The names most like `wanted`, best first: what a person may have meant. At most `count`; none when nothing is near. */
export function nearest(wanted: string, names: Iterable<string>, count = 3): string[] {
  // Every name of two letters is two letters away from every other one.
  const limit = Math.min(Math.max(2, Math.floor(wanted.length / 3)), wanted.length - 1);
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
