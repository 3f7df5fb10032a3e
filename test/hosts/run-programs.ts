import { cpSync, existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { freshFolder, type Run, runApp, writeFiles } from '../e2e/support/run-app.ts';

const fixtures = resolve(import.meta.dirname, 'fixtures');
const BATCH_TIMEOUT_MS = 120_000;

/** A program ready to run: its module, and its functions as targets. */
export interface Ready {
  readonly id: string;
  readonly text: string;
  readonly targets: readonly object[];
  /** In a process of its own, which ends this way; `null`: in one with others. */
  readonly ending: string | null;
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
    const keep = (run: readonly ({ id: string } & Trace)[]): void => {
      for (const { id, ...trace } of run) traces.get(id)?.push(trace);
    };
    for (const { id, ending } of programs)
      if (ending !== null) keep(await runOnce(folder, [id], way, ['alone.mjs', id, ending]));
    let left = programs.filter(({ ending }) => ending === null).map(({ id }) => id);
    while (left.length > 0) {
      const run = await runOnce(folder, left, way, ['batch.mjs', ...left]);
      const done = run.map(({ id }) => id);
      keep(run);
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

interface Event {
  readonly eventId: string;
  /** `p12 f0`: program and function. */
  readonly eventType: string;
  readonly payload: object;
}

/** As far as the process came: the last program may be the one that ended it. */
async function runOnce(
  folder: string,
  ids: readonly string[],
  { args, env }: Way,
  entry: readonly string[],
): Promise<({ id: string } & Trace)[]> {
  const out = join(folder, 'out.ndjson');
  const backup = join(folder, 'dlq-backup');
  for (const left of [out, backup]) rmSync(left, { recursive: true, force: true });
  const run = await runApp({
    node: process.execPath,
    cwd: folder,
    args: [...args, ...entry],
    env: { HOSTS_OUT: out, ...env },
    timeoutMs: BATCH_TIMEOUT_MS,
  });
  const lines = existsSync(out) ? readLines(out) : [];
  const byProgram = Map.groupBy(lines, ({ program }) => program);
  // What was in flight at process.exit() is in the backup, and may be in the topic as well.
  const events = new Map(
    [...run.events.map(({ value }) => value as Event), ...readBackup(backup)].map((event) => [
      event.eventId,
      event,
    ]),
  );
  const published = Map.groupBy(events.values(), ({ eventType }) => eventType.split(' ')[0] as string);
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
        .map(({ eventType, payload }) => `${eventType.split(' ')[1]} ${JSON.stringify(payload)}`)
        .sort(),
      ...(isOver && run.code === 0 && entry[0] === 'batch.mjs' ? {} : { end: endOf(run) }),
    };
  });
}

/** Code or signal, and what it said: without the frames of stacks, some of which are svc's. */
function endOf({ code, signal, stdout, stderr }: Run): string {
  const isOwn = (line: string): boolean => !/^\s+at |^\(Use `node |^\s*$/.test(line);
  const lines = stderr.split('\n').filter(isOwn).join('\n');
  return `${signal ?? code}\n${stdout}${lines.replace(/node:\d+/g, 'node:pid')}`;
}

function readBackup(folder: string): Event[] {
  if (!existsSync(folder)) return [];
  const files = readdirSync(folder).filter((file) => /^\d+\.json$/.test(file));
  return files.map((file) => JSON.parse(readFileSync(join(folder, file), 'utf8')) as Event);
}

function readLines(file: string): Line[] {
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Line);
}
