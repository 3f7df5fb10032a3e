import type { Trace } from './run-programs.ts';

/**
 * What differs between the same program without and with svc, and what its events should have been; `null` when nothing does.
 * @param silent names of functions whose rejections are not told of with svc, where nobody handles them
 */
export function difference(
  without: Trace | undefined,
  under: Trace | undefined,
  silent: readonly string[] = [],
): string | null {
  if (without === undefined || under === undefined) return 'it was not run';
  const strands = [...new Set([...Object.keys(without.said), ...Object.keys(under.said)])];
  const isSilent = (line: string): boolean =>
    /^(unhandledRejection|rejectionHandled) /.test(line) &&
    silent.some((name) => line.includes(` ${name} `) || line.includes(`'${name} `));
  const linesOf = (trace: Trace, strand: string): readonly string[] => {
    const lines = trace.said[strand] ?? [];
    if (strand === 'process' && trace === without)
      return lines.filter((line) => !isSilent(line) || under.said[strand]?.includes(line));
    return /^(main|process)/.test(strand) ? lines : lines.toSorted();
  };
  const told = strands.flatMap((strand) =>
    differing(strand, linesOf(without, strand), linesOf(under, strand)),
  );
  if (without.end !== under.end)
    told.push(`its process: ${without.end ?? 'went on'}`, `    with svc: ${under.end ?? 'went on'}`);
  told.push(...differing('what it expects', without.expected, under.expected));
  // What ran when its process was ended may not have come to its event.
  const isEnded = under.end !== undefined && !under.end.startsWith('0');
  const expected = isEnded ? within(under.expected, under.published) : under.expected;
  told.push(...differing('events, expected and published', expected, under.published));
  return told.length === 0 ? null : told.join('\n');
}

function differing(title: string, first: readonly string[], second: readonly string[]): string[] {
  if (JSON.stringify(first) === JSON.stringify(second)) return [];
  const at = first.findIndex((line, index) => line !== second[index]);
  const from = at < 0 ? first.length : at;
  const list = (lines: readonly string[]): string =>
    lines.slice(from, from + 4).join('\n             ') || '(nothing more)';
  return [`${title}:`, `    without: ${list(first)}`, `   with svc: ${list(second)}`];
}

/** Those of `all` that are in `some`, as often as they are there. */
function within(all: readonly string[], some: readonly string[]): string[] {
  const left = [...some];
  return all.filter((each) => {
    const at = left.indexOf(each);
    if (at >= 0) left.splice(at, 1);
    return at >= 0;
  });
}
