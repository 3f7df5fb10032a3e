import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { requiring } from '../../support/requires.ts';
import { freshFolder, runApp, writeFiles } from '../support/run-app.ts';
import { inboxApplicationOf, type ProgramsEnd } from './inbox-programs.ts';
import { libraries } from './libraries.ts';
import type { Library } from './library.ts';
import { applicationFor, placeFor, runs, tested } from './run-library.ts';

/** `INBOX_PROGRAMS`: how many for each library; `INBOX_SEED` repeats what has failed; `INBOX_ALL`: every library, not those of every day. */
const {
  INBOX_PROGRAMS: count = '40',
  INBOX_SEED: seed = String(Date.now() % 2 ** 31),
  INBOX_ALL,
} = process.env;
const isChosen = (library: Library): boolean => (INBOX_ALL === undefined ? runs(library) : true);

async function runPrograms(library: Library, withSvc: boolean): Promise<ProgramsEnd> {
  const folder = freshFolder(applicationFor(library), `inbox-${library.id}`);
  const { database, datasource } = await placeFor(library, folder);
  writeFiles(folder, inboxApplicationOf(library));
  if (library.build !== undefined)
    execFileSync(process.execPath, ['build.mjs'], {
      cwd: folder,
      timeout: 120_000,
      stdio: ['ignore', 'ignore', 'inherit'],
    });
  const { code, stdout, stderr } = await runApp({
    node: tested.node,
    cwd: folder,
    args: [
      ...(withSvc ? ['--import', 'svc/register'] : []),
      ...['main.mjs', count, seed, library.server ?? 'postgres', withSvc ? 'svc' : 'alone'],
    ],
    env: {
      DATABASE: database,
      SVC_OUTBOX_DATASOURCE_URL: datasource,
      ...(process.env.SHOW && { SHOW: '1' }),
    },
    timeoutMs: 60_000 + Number(count) * 500,
  });
  if (process.env.SHOW) console.log(stderr);
  assert.equal(code, 0, `${stdout}\n${stderr}`);
  // Knex says there, too, what it thinks of a lost connection.
  return JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '');
}

for (const library of libraries.filter(isChosen)) {
  const { server = 'postgres' } = library;
  const define = server === 'sqlite' ? describe : requiring.bind(undefined, server);
  define(`inbox: generated handlers, ${library.title} [${library.id}]`, function suite() {
    this.timeout(240_000 + Number(count) * 1_000);
    for (const withSvc of [true, false])
      it(`says handled where what it wrote stands, and nowhere else, ${withSvc ? 'with svc' : 'without a running svc'}`, async () => {
        const { failures, seen, programs } = await runPrograms(library, withSvc);
        if (process.env.SHOW || Number(count) > 100)
          console.log(library.id, seed, programs, JSON.stringify(seen));
        assert.deepEqual(failures, [], `INBOX_SEED=${seed}`);
        assert.ok((seen.handled ?? 0) > 0 && (seen.rejected ?? 0) > 0, JSON.stringify(seen));
      });
  });
}
