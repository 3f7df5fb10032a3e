import { libraries } from './libraries.ts';
import type { Library } from './library.ts';

/** What svc does not see. The functions of `outbox` are the way round. */
const unreached: readonly (readonly [what: string, why: string])[] = [
  ['postgres.js (`postgres`), Bun SQL', 'not `pg`: `outbox.withTransaction`'],
  [
    'The driver `mariadb`, and what uses it (Sequelize with `dialect: mariadb`)',
    'not `mysql2`; with `dialect: mysql` it is',
  ],
  ['Prisma with a Rust engine (before 7, without a driver adapter)', 'the connection is in the engine'],
  ['`sqlite3`, and what uses it (Sequelize with `dialect: sqlite`)', 'not `better-sqlite3`'],
  ['`pg-native` (`pg.native`)', 'a client of its own over libpq'],
  [
    'A driver that a bundler has put into the bundle',
    'Node loads no package `pg` there: leave it external, or hand it to `outbox.watch`',
  ],
  [
    'A driver in another process or thread than the function',
    'nothing leads from the call to the connection',
  ],
];

/** The part of docs/outbox.md that follows from the libraries that the tests run. */
export function joinsTable(): string {
  return [
    '| Library | Tested | In a transaction, with savepoints, eight at once | Begun and ended by hand | `result: transaction` | Remarks | Test |',
    '|---|---|---|---|---|---|---|',
    ...libraries.map(row),
    '',
    '| Not reached | Because |',
    '|---|---|',
    ...unreached.map((cells) => line(...cells)),
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
    hasNoBegin ? 'it has none' : '✓',
    hasNoCallbackResult ? 'no' : '✓',
    remark,
    `\`${id}\``,
  );
}

const line = (...cells: readonly string[]): string =>
  `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
