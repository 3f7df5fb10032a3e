import { driverLibraries } from './drivers.ts';
import type { Library } from './library.ts';
import { onMysql2 } from './on-mysql2.ts';
import { onSqlite } from './on-sqlite.ts';
import { orms } from './orms.ts';
import { prisma } from './prisma.ts';
import { queryBuilders } from './query-builders.ts';

export const libraries: readonly Library[] = [
  ...driverLibraries,
  ...queryBuilders,
  ...orms,
  ...prisma,
  ...onMysql2,
  ...onSqlite,
];
