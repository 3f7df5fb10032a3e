import { libraries } from './libraries.ts';
import type { Library } from './library.ts';

/** The part of docs/internals/outbox.md that follows from the libraries that the tests run. */
export function joinsTable(): string {
  return [
    '| Library | Tested | In a transaction, with savepoints, eight at once | Begun and ended by hand | `result: transaction` | Remarks | Test |',
    '|---|---|---|---|---|---|---|',
    ...libraries.map(row),
    '',
  ].join('\n');
}

function row(library: Library): string {
  const { id, title, server, dependencies, hasNoBegin, hasNoCallbackResult, remark = '' } = library;
  const versions = Object.entries(dependencies).map(([name, version]) => `\`${name}\` ${version}`);
  return line(
    title,
    [...versions, ...(server === 'mysql' ? ['MySQL 8.0.31'] : [])].join(', '),
    library.hasOneConnection ? '✓, one after the other' : '✓',
    hasNoBegin ? 'not available' : '✓',
    hasNoCallbackResult ? 'no' : '✓',
    remark,
    `\`${id}\``,
  );
}

const line = (...cells: readonly string[]): string =>
  `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
