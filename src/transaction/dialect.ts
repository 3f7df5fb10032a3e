export const dialects = ['postgres', 'mysql', 'sqlite'] as const;
/** The kind of a database. MariaDB is one with MySQL. */
export type Dialect = (typeof dialects)[number];

const schemes: Readonly<Record<string, Dialect>> = {
  'postgres:': 'postgres',
  'postgresql:': 'postgres',
  'mysql:': 'mysql',
  'mariadb:': 'mysql',
  'sqlite:': 'sqlite',
};

/** The kind of database that a URL names; `undefined` where its scheme is of none. */
export function dialectOf(url: string): Dialect | undefined {
  return schemes[/^\w+:/.exec(url)?.[0].toLowerCase() ?? ''];
}
