import type { Library } from './library.ts';

const schema = (generator: string) => `
generator client {
  ${generator}
}
datasource db {
  provider = "postgresql"
}
model Order {
  id String @id
  @@map("orders")
}
`;

/** Prisma's command line asks for an engine that it has no use for here. */
export const generate = `
import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';

const command = createRequire(import.meta.url).resolve('prisma/build/index.js');
execFileSync(process.execPath, [command, 'generate', '--schema', 'schema.prisma'], {
  env: { ...process.env, PRISMA_SCHEMA_ENGINE_BINARY: process.execPath, PRISMA_HIDE_UPDATE_MESSAGE: '1' },
  stdio: 'inherit',
});
`;

const database = (client: string) => `
import { PrismaPg } from '@prisma/adapter-pg';
import { PrismaClient } from '${client}';

const db = new PrismaClient({ adapter: new PrismaPg({ connectionString: process.env.DATABASE, max: 12 }) });

export const transaction = (work) => db.$transaction(work);
export const nested = (tx, work) => tx.$transaction(work);
export const insert = (tx, id) => (tx ?? db).order.create({ data: { id } });
export const close = () => db.$disconnect();
export const dataSource = async () => db;
`;

const dependencies = {
  pg: '8.23.1',
  prisma: '7.10.0',
  '@prisma/client': '7.10.0',
  '@prisma/adapter-pg': '7.10.0',
};

export const prisma: readonly Library[] = [
  {
    id: 'prisma',
    title: 'Prisma, driver adapter `@prisma/adapter-pg`, generator `prisma-client`',
    form: 'ts',
    dependencies,
    files: {
      'schema.prisma': schema(
        'provider = "prisma-client"\n  output = "./generated"\n  moduleFormat = "esm"\n  importFileExtension = "ts"',
      ),
    },
    build: generate,
    database: database('./generated/client'),
    hasNoBegin: true,
    remark:
      'A nested write outside `$transaction()` opens its own: `result: transaction` is its result. Other calls there write by themselves. The results of `$transaction([…])` are unknown before the COMMIT',
  },
  {
    id: 'prisma-js',
    title: 'Prisma, driver adapter `@prisma/adapter-pg`, generator `prisma-client-js`, CommonJS',
    form: 'cjs',
    dependencies,
    files: { 'schema.prisma': schema('provider = "prisma-client-js"') },
    build: generate,
    database: database('@prisma/client'),
    hasNoBegin: true,
    remark:
      'Nested writes as above. With its own `output`, this generator copies its runtime there, where svc cannot change it. svc then follows transactions through the driver only',
  },
];
