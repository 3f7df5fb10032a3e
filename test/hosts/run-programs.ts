import { cpSync, existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { freshFolder, type Run, runApp, writeFiles } from '../e2e/support/run-app.ts';
import type { FreshDatabase, Row } from './databases.ts';

const fixtures = resolve(import.meta.dirname, 'fixtures');
const BATCH_TIMEOUT_MS = 120_000;

/** A program ready to run: its module, and its functions as targets. */
export interface Ready {
  readonly id: string;
  readonly text: string;
  readonly targets: readonly object[];
  /** In a process of its own, which ends this way; `null`: in one with others. */
  readonly ending: string | null;
  /** Names of functions whose rejections are not told of, where nobody handles them. */
  readonly silent: readonly string[];
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
  readonly database?: () => Promise<FreshDatabase>;
  /** Events are rows of its outbox. */
  readonly isStored?: boolean;
}

interface StartedWay extends Required<Omit<Way, 'database'>> {
  readonly database: FreshDatabase | undefined;
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
  for (const { args, env, isStored = false, database } of ways) {
    const way = { args, env, isStored, database: await database?.() };
    const keep = (run: Map<string, Trace>): void => {
      for (const [id, trace] of run) traces.get(id)?.push(trace);
    };
    for (const { id, ending } of programs)
      if (ending !== null) keep(await runOnce(folder, [id], way, ['alone.mjs', id, ending]));
    let left = programs.filter(({ ending }) => ending === null).map(({ id }) => id);
    while (left.length > 0) {
      const run = await runOnce(folder, left, way, ['batch.mjs', ...left]);
      keep(run);
      left = left.slice(run.size);
    }
  }
  rmSync(folder, { recursive: true, force: true });
  return traces;
}

/** As far as the process came: the last program may be the one that ended it. */
async function runOnce(
  folder: string,
  ids: readonly string[],
  { args, env, database, isStored }: StartedWay,
  entry: readonly string[],
): Promise<Map<string, Trace>> {
  const out = join(folder, 'out.ndjson');
  const backup = join(folder, 'dlq-backup');
  for (const left of [out, backup]) rmSync(left, { recursive: true, force: true });
  const run = await runApp({
    node: process.execPath,
    cwd: folder,
    args: [...args, ...entry],
    env: { HOSTS_OUT: out, ...database?.env, ...env },
    timeoutMs: BATCH_TIMEOUT_MS,
  });
  const lines = existsSync(out) ? readLines(out) : [];
  const done = new Set(lines.filter((line) => line.done).map(({ program }) => program));
  const stopped = ids.findIndex((id) => !done.has(id));
  const isAlone = entry[0] === 'alone.mjs';
  const asked = database?.statements();
  // What was in flight at process.exit() is in the backup, and may be in the topic as well.
  const events = [
    ...run.events.map(({ value }) => value as unknown as Event),
    ...readBackup(backup),
    ...((isStored ? await database?.rows() : undefined) ?? []).map(eventOf),
  ];
  return new Map(
    ids.slice(0, stopped < 0 ? ids.length : stopped + 1).map((id) => {
      const own = lines.filter(({ program }) => program === id);
      const statements = (asked?.get(id) ?? []).map((said) => ({ strand: 'main statements', said }));
      return [
        id,
        {
          said: linesByStrand([...own, ...statements]),
          expected: own
            .flatMap(({ event, payload }) =>
              event === undefined ? [] : `${event} ${JSON.stringify(payload)}`,
            )
            .sort(),
          published: publishedBy(id, events),
          ...((isAlone || (run.code !== 0 && !done.has(id))) && { end: endOf(run) }),
        },
      ];
    }),
  );
}

interface Line {
  readonly program: string;
  readonly strand?: string;
  readonly said?: string;
  readonly event?: string;
  readonly payload?: object;
  readonly done?: true;
}

function readLines(file: string): Line[] {
  const lines = readFileSync(file, 'utf8').split('\n').filter(Boolean);
  return lines.map((line) => JSON.parse(line) as Line);
}

function linesByStrand(lines: readonly Pick<Line, 'strand' | 'said'>[]): Trace['said'] {
  const strands = Map.groupBy(
    lines.filter(({ said }) => said !== undefined),
    ({ strand }) => strand ?? '',
  );
  // Names of databases are random.
  const textOf = ({ said = '' }: Pick<Line, 'said'>): string => said.replace(/svc_test_\w+/g, 'database');
  return Object.fromEntries([...strands].map(([strand, some]) => [strand, some.map(textOf)]));
}

/** An envelope. */
interface Event {
  readonly eventId: string;
  /** `p12 f0`: program and function. */
  readonly eventType: string;
  readonly payload: object;
}

const eventOf = ({ payload }: Row): Event => JSON.parse(Buffer.from(payload).toString()) as Event;

function readBackup(folder: string): Event[] {
  if (!existsSync(folder)) return [];
  const files = readdirSync(folder).filter((file) => /^\d+\.json$/.test(file));
  return files.map((file) => JSON.parse(readFileSync(join(folder, file), 'utf8')) as Event);
}

function publishedBy(id: string, events: readonly Event[]): string[] {
  const own = new Map(
    events.filter(({ eventType }) => eventType.startsWith(`${id} `)).map((event) => [event.eventId, event]),
  );
  return [...own.values()]
    .map(({ eventType, payload }) => `${eventType.slice(id.length + 1)} ${JSON.stringify(payload)}`)
    .sort();
}

/**
 * Code or signal, and what it said: without the frames of stacks, some of which are svc's, and without the place above the stack of
 * an error that ends the process, which is that of the last `throw`: docs/capture.md.
 */
function endOf({ code, signal, stdout, stderr }: Run): string {
  const isOwn = (line: string): boolean => !/^\s+at |^\(Use `node |^\s*$/.test(line);
  const text = stderr.replace(/^(file:\/\/|\/).+:\d+\n.*\n\s*\^+\n/gm, '');
  const lines = text.split('\n').filter(isOwn).join('\n');
  return `${signal ?? code}\n${stdout}${lines.replace(/node:\d+/g, 'node:pid')}`;
}
