import { type Database, databaseUrlFromEnv, useGivenDatabase } from './database.ts';
import { mariadb } from './mariadb.ts';
import { mysql } from './mysql.ts';
import { postgres } from './postgres.ts';
import type { Service } from './service.ts';

function service(database: Database): Service {
  const { name, variable } = database;
  return {
    name,
    variables: variable,
    useGiven: async () => (await useGivenDatabase(database))?.url ?? null,
    start: async (log) => (await database.start({ keep: true, log })).local?.instance ?? null,
    answers: async ({ address }) => (await database.problem(address)) === null,
    env(instance) {
      const url = databaseUrlFromEnv(database) ?? instance?.address;
      return url ? [`export ${variable}=${url}`] : [];
    },
  };
}

/** One server of each product that the outbox can be in. */
export const databaseServices: readonly Service[] = [postgres, mariadb, mysql].map(service);
