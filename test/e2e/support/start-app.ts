import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { freshFolder, hostEnvironment, readEvents, writeFiles } from './run-app.ts';
import { subject } from './subject.ts';

/** A record of a topic file, as `svc.broker.client: file` writes it. */
export interface TopicRecord {
  readonly topic: string;
  readonly key: string;
  readonly headers: Readonly<Record<string, string>>;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into it, and assert on what they find.
  readonly value: any;
}

export interface AppOptions {
  /** Folder of an installed application, see `installPacked`: the case gets a fresh folder below it. */
  readonly app: string;
  /** Where it runs. Default: a fresh folder below `app`. */
  readonly folder?: string;
  /** Path below the folder of the case -> content. An object becomes JSON. */
  readonly files: Readonly<Record<string, string | object>>;
  /** Arguments of Node. Default: `--import svc/register main.mjs`. */
  readonly args?: readonly string[];
  /** Beside the machine's own variables, without any of svc, Kafka or OpenTelemetry. */
  readonly env?: Readonly<Record<string, string>>;
  /** Binary. Default: the Node under test. */
  readonly node?: string;
  /** The process is killed after this time. Default: 20 s. */
  readonly timeoutMs?: number;
}

export interface AppEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
  /** From spawn to exit. */
  readonly durationMs: number;
  /** Records by topic, from the topic files below `svc-topics`. */
  readonly topics: Readonly<Record<string, readonly TopicRecord[]>>;
}

export interface RunningApp {
  readonly folder: string;
  readonly child: ChildProcess;
  /** Waits until standard output or error match; rejects with both when the process ends before, or after a minute. */
  waitFor(pattern: RegExp): Promise<RegExpExecArray>;
  /** Sends a signal and waits for the end. */
  kill(signal: NodeJS.Signals): Promise<AppEnd>;
  readonly ended: Promise<AppEnd>;
}

const waitLimitMs = 60_000;
const running = new Set<ChildProcess>();

/** Runs an application to its end. */
export async function endOf(options: AppOptions): Promise<AppEnd> {
  return (await startApp(options)).ended;
}

/** Starts an application that a test talks to. Whatever still runs at the end of the tests is killed. */
export async function startApp(options: AppOptions): Promise<RunningApp> {
  const { node } = await subject();
  const folder = options.folder ?? freshFolder(options.app, 'case');
  writeFiles(
    folder,
    Object.fromEntries(
      Object.entries(options.files).map(([path, content]) => [
        path,
        typeof content === 'string' ? content : JSON.stringify(content),
      ]),
    ),
  );
  const started = performance.now();
  const child = spawn(options.node ?? node, [...(options.args ?? ['--import', 'svc/register', 'main.mjs'])], {
    cwd: folder,
    env: { ...hostEnvironment(), MANAGEMENT_SERVER_PORT: '0', ...options.env },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: options.timeoutMs ?? 60_000,
    killSignal: 'SIGKILL',
  });
  running.add(child);
  const output = { stdout: '', stderr: '' };
  const watchers = new Set<() => void>();
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (text: string) => {
      output[name] += text;
      for (const watch of watchers) watch();
    });
  }
  const ended = new Promise<AppEnd>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => {
      running.delete(child);
      const durationMs = performance.now() - started;
      if (signal === 'SIGKILL') output.stderr += `\nkilled after ${Math.round(durationMs)} ms\n`;
      resolve({ code, signal, ...output, durationMs, topics: topicsOf(folder) });
      for (const watch of watchers) watch();
    });
  });

  return {
    folder,
    child,
    ended,
    kill(signal) {
      child.kill(signal);
      return ended;
    },
    waitFor: (pattern) =>
      new Promise((resolve, reject) => {
        const settle = (done: () => void): void => {
          clearTimeout(timer);
          watchers.delete(watch);
          done();
        };
        const fail = (why: string): void =>
          settle(() => reject(new Error(`${why} before ${pattern}\n${output.stdout}\n${output.stderr}`)));
        const watch = (): void => {
          const match = pattern.exec(output.stdout) ?? pattern.exec(output.stderr);
          if (match !== null) settle(() => resolve(match));
          else if (!running.has(child)) fail('the process ended');
        };
        const timer = setTimeout(() => fail(`${waitLimitMs} ms were over`), waitLimitMs);
        watchers.add(watch);
        watch();
      }),
  };
}

function topicsOf(folder: string): Record<string, TopicRecord[]> {
  const topics: Record<string, TopicRecord[]> = {};
  for (const record of readEvents(join(folder, 'svc-topics'))) {
    topics[record.topic] = [...(topics[record.topic] ?? []), record];
  }
  return topics;
}

process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});
