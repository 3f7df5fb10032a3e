import { editDistance } from '../../edit-distance.ts';

/** Names that are likely meant by a wrong one, nearest first: at most three. */
export function nearestNames(wrong: string, names: readonly string[]): string[] {
  // Two swapped letters count as two: let them pass in all but the shortest names.
  const limit = wrong.length <= 3 ? 1 : 1 + Math.floor(wrong.length / 3);
  return names
    .map((name) => ({ name, distance: editDistance(wrong.toLowerCase(), name.toLowerCase()) }))
    .filter((candidate) => candidate.distance <= limit)
    .sort((left, right) => left.distance - right.distance)
    .slice(0, 3)
    .map((candidate) => candidate.name);
}
