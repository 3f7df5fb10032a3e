/** Names that are likely meant by a wrong one, nearest first: at most three. */
export function nearestNames(wrong: string, names: readonly string[]): string[] {
  // Two swapped letters count as two: let them pass in all but the shortest names.
  const limit = wrong.length <= 3 ? 1 : 1 + Math.floor(wrong.length / 3);
  return names
    .map((name) => ({ name, distance: distance(wrong.toLowerCase(), name.toLowerCase()) }))
    .filter((candidate) => candidate.distance <= limit)
    .sort((left, right) => left.distance - right.distance)
    .slice(0, 3)
    .map((candidate) => candidate.name);
}

/** The Levenshtein distance: how many letters to insert, drop or replace. */
function distance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (let line = 1; line <= from.length; line += 1) {
    const above = row;
    row = [line];
    for (let column = 1; column <= to.length; column += 1) {
      const replaced = (above[column - 1] as number) + (from[line - 1] === to[column - 1] ? 0 : 1);
      row.push(Math.min(replaced, (above[column] as number) + 1, (row[column - 1] as number) + 1));
    }
  }
  return row[to.length] as number;
}
