import { spawn } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';

/** Texts by path, relative to the folder they are written into. */
export type Files = Readonly<Record<string, string>>;

/** One published record, as the `file` broker wrote it. */
export interface PublishedEvent {
  readonly topic: string;
  readonly key: string;
  readonly headers: Readonly<Record<string, string>>;
  // biome-ignore lint/suspicious/noExplicitAny: an envelope with a payload of any shape
  readonly value: Record<string, any>;
}

export interface Run {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly events: readonly PublishedEvent[];
}

export interface RunOptions {
  readonly node: string;
  readonly cwd: string;
  readonly args: readonly string[];
  readonly env?: NodeJS.ProcessEnv;
  /** Default: 60 s; the process is killed then. */
  readonly timeoutMs?: number;
}

const folders = new Set<string>();
process.once('exit', () => {
  if (process.env.SVC_E2E_KEEP) return;
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

/** A folder of its own below an installed application, removed when the test process ends, unless SVC_E2E_KEEP is set. */
export function freshFolder(application: string, name: string): string {
  const folder = join(application, 'runs', `${name}-${process.pid}-${folders.size}`);
  mkdirSync(folder, { recursive: true });
  folders.add(folder);
  return folder;
}

export function writeFiles(folder: string, files: Files): void {
  for (const [path, text] of Object.entries(files)) {
    const file = join(folder, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  }
}

/** `links`: where the link stands -> what it leads to, both relative to `folder`. */
export function writeLinks(folder: string, links: Readonly<Record<string, string>>): void {
  for (const [path, target] of Object.entries(links)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    symlinkSync(join(folder, target), join(folder, path), 'junction');
  }
}

/** Runs one application to its end and collects what it said and published. */
export function runApp({ node, cwd, args, env, timeoutMs = 60_000 }: RunOptions): Promise<Run> {
  const topics = join(cwd, 'svc-topics');
  rmSync(topics, { recursive: true, force: true });
  const child = spawn(node, args, {
    cwd,
    env: { ...hostEnvironment(), SVC_BROKER_FILE_PATH: topics, MANAGEMENT_SERVER_PORT: '0', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const timer = setTimeout(() => child.kill('SIGKILL'), timeoutMs);
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => {
      clearTimeout(timer);
      if (signal === 'SIGKILL') stderr += `\nkilled by the test after ${timeoutMs} ms`;
      resolve({ code, signal, stdout, stderr, events: readEvents(topics) });
    });
  });
}

export function readEvents(topics: string): PublishedEvent[] {
  if (!existsSync(topics)) return [];
  const files = readdirSync(topics).filter((file) => file.endsWith('.ndjson'));
  return files.flatMap((file) =>
    readFileSync(join(topics, file), 'utf8')
      .split('\n')
      .filter(Boolean)
      .map((line) => ({ ...JSON.parse(line), topic: file.replace(/\.ndjson$/, '') }) as PublishedEvent),
  );
}

/**
 * The environment without what would steer Node, svc or OpenTelemetry. Compiled code is kept where `npm test` says so: of a
 * command that runs from its source, stripping and compiling the types is half the work. The matrix keeps none.
 */
export function hostEnvironment(): NodeJS.ProcessEnv {
  const steering = /^(SVC_|MANAGEMENT_|OTEL_|KAFKA_|NODE_(?!COMPILE_CACHE$)|TS_NODE_|TSX_|SWC)/;
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !steering.test(name)));
}
