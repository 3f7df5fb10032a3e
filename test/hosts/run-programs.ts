import { cpSync, existsSync, readFileSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { freshFolder, type Run, runApp, writeFiles } from '../e2e/support/run-app.ts';

const fixtures = resolve(import.meta.dirname, 'fixtures');
const BATCH_TIMEOUT_MS = 120_000;

/** A program ready to run: its module, and its functions as targets. */
export interface Ready {
  readonly id: string;
  readonly text: string;
  readonly targets: readonly object[];
}

/** What one program did in one process. */
export interface Trace {
  /** Lines by strand. */
  readonly said: Readonly<Record<string, readonly string[]>>;
  /** As the program expects them: `f0 {"x":1,…}`, sorted. */
  readonly expected: readonly string[];
  /** As svc published them. */
  readonly published: readonly string[];
  /** How its process ended, where that was during this program. */
  readonly end?: string;
}

export interface Way {
  /** What stands before the entry file. */
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
}

/** The same programs in one process each way: without svc, and with it. */
export async function runBothWays(
  application: string,
  programs: readonly Ready[],
  ways: readonly Way[],
): Promise<Map<string, Trace[]>> {
  const folder = freshFolder(application, 'hosts');
  cpSync(fixtures, folder, { recursive: true });
  writeFiles(folder, {
    'package.json': JSON.stringify({ name: 'programs', version: '1.0.0', type: 'module' }),
    'svc.config.json': JSON.stringify({
      svc: {
        service: { name: 'programs' },
        broker: { client: 'file', topic: 'events' },
        log: { level: 'off' },
        targets: programs.flatMap(({ targets }) => targets),
      },
    }),
    ...Object.fromEntries(programs.map(({ id, text }) => [`${id}.mjs`, text])),
  });
  const traces = new Map<string, Trace[]>(programs.map(({ id }) => [id, []]));
  for (const way of ways) {
    let left = programs.map(({ id }) => id);
    while (left.length > 0) {
      const run = await runOnce(folder, left, way);
      const done = run.map(({ id }) => id);
      for (const { id, ...trace } of run) traces.get(id)?.push(trace);
      left = left.filter((id) => !done.includes(id));
    }
  }
  rmSync(folder, { recursive: true, force: true });
  return traces;
}

interface Line {
  readonly program: string;
  readonly strand?: string;
  readonly said?: string;
  readonly event?: string;
  readonly payload?: object;
  readonly done?: true;
}

/** As far as the process came: the last program may be the one that ended it. */
async function runOnce(
  folder: string,
  ids: readonly string[],
  { args, env }: Way,
): Promise<({ id: string } & Trace)[]> {
  const out = join(folder, 'out.ndjson');
  rmSync(out, { force: true });
  const run = await runApp({
    node: process.execPath,
    cwd: folder,
    args: [...args, 'batch.mjs', ...ids],
    env: { HOSTS_OUT: out, ...env },
    timeoutMs: BATCH_TIMEOUT_MS,
  });
  const lines = existsSync(out) ? readLines(out) : [];
  const byProgram = Map.groupBy(lines, ({ program }) => program);
  const published = Map.groupBy(run.events, ({ value }) => String(value.eventType).split(' ')[0] as string);
  const reached = ids.slice(
    0,
    ids.findIndex((id) => !byProgram.get(id)?.some(({ done }) => done)) + 1 || ids.length,
  );
  return reached.map((id) => {
    const own = byProgram.get(id) ?? [];
    const isOver = own.some(({ done }) => done);
    return {
      id,
      said: Object.fromEntries(
        [
          ...Map.groupBy(
            own.filter(({ said }) => said !== undefined),
            ({ strand }) => strand ?? '',
          ),
        ].map(([strand, some]) => [strand, some.map(({ said = '' }) => said)]),
      ),
      expected: own
        .filter(({ event }) => event !== undefined)
        .map(({ event, payload }) => `${event} ${JSON.stringify(payload)}`)
        .sort(),
      published: (published.get(id) ?? [])
        .map(({ value }) => `${String(value.eventType).split(' ')[1]} ${JSON.stringify(value.payload)}`)
        .sort(),
      ...(isOver && run.code === 0 ? {} : { end: endOf(run, isOver) }),
    };
  });
}

function endOf({ code, signal, stdout, stderr }: Run, isOver: boolean): string {
  return `${isOver ? 'after it' : 'in it'}: ${signal ?? code}\n${stdout}${stderr}`;
}

function readLines(file: string): Line[] {
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Line);
}
