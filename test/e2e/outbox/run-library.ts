import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { startMariadb } from '../../support/mariadb.ts';
import { startMysql } from '../../support/mysql.ts';
import { installPacked } from '../../support/packed.ts';
import { startPostgres } from '../../support/postgres.ts';
import { subject } from '../support/subject.ts';
import { everydayApplication } from './everyday-application.ts';
import type { Library } from './library.ts';

export const tested = await subject();

const servers = { postgres: startPostgres, mariadb: startMariadb, mysql: startMysql };

/** An empty database: where the application and svc find it, and how to read what they have written. */
interface Place {
  readonly database: string;
  readonly datasource: string;
  ask(query: string): Promise<unknown>;
}

export async function placeFor({ server = 'postgres' }: Library, folder: string): Promise<Place> {
  if (server === 'sqlite') {
    const database = join(folder, 'shop.db');
    return {
      ...{ database, datasource: `sqlite:${database}` },
      async ask(query) {
        using handle = new DatabaseSync(database);
        return handle.prepare(query).all();
      },
    };
  }
  const { freshDatabase, query } = await servers[server]();
  const database = await freshDatabase();
  return { database, datasource: database, ask: (text) => query(database, text) };
}

export function applicationFor({ id, isEveryday, dependencies }: Library): string {
  return isEveryday ? everydayApplication() : installPacked(`outbox-${id}`, dependencies);
}

/**
 * What a library sends does not hang on OpenTelemetry or on patches of Node: the newest line is run with all, the oldest with those on
 * PostgreSQL.
 */
function isInMatrix({ server }: Library): boolean {
  if (!tested.isMatrix || tested.otel !== 3) return false;
  return /^26\./.test(tested.version) || (server === undefined && /^22\.(?!15\.)/.test(tested.version));
}

/** Which libraries a suite of this folder is run with. */
export const runs = (library: Library): boolean =>
  (library.isEveryday || isInMatrix(library)) &&
  (library.form !== 'ts' || tested.stripsTypes) &&
  isFrom(library.needsNode ?? '22.0');

function isFrom(first: string): boolean {
  const [[major = 0, minor = 0], [firstMajor = 0, firstMinor = 0]] = [tested.version, first].map((version) =>
    version.split('.').map(Number),
  ) as [number[], number[]];
  return major > firstMajor || minor >= firstMinor;
}
