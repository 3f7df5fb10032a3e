import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { lastLines } from './commands.ts';
import type { Instance } from './instances.ts';
import { freePorts } from './ports.ts';
import { pauseGroup, signalGroup } from './processes.ts';
import { PortTaken, startInstance } from './start-instance.ts';

/** One program that is a whole server, and how to start it on a port of 127.0.0.1. */
export interface LocalProgram {
  /** Name of the service: `kms`, `vault`. */
  readonly name: string;
  /** Puts into the folder what the server needs; the command line must name the folder, by which the process is known. */
  prepare(folder: string, port: number): Promise<{ program: string; args: string[] }>;
  /** What a client connects to. */
  address(port: number): string;
  /** `null` when the server can be used, else why not yet. */
  isReady(address: string, folder: string): Promise<string | null>;
  /** What the log says when the port was taken meanwhile. */
  readonly portTaken: RegExp;
}

export interface LocalServer {
  readonly address: string;
  readonly instance: Instance;
  readonly logFile: string;
  /** Ends it at once, as a crash does (SIGKILL). */
  kill(): Promise<void>;
  /** Freezes it (SIGSTOP): once this resolves, connections stay open and nothing answers. */
  pause(): Promise<void>;
  /** Ends `pause` (SIGCONT). */
  resume(): void;
  /** Ends it and removes its data. */
  stop(): Promise<void>;
}

const READY_TIMEOUT_MS = 30_000;

/** Starts a server on a free port, with a folder of its own for data and log. `keep`: it outlives this process. */
export function startLocalServer(program: LocalProgram, keep = false): Promise<LocalServer> {
  return startInstance(program.name, 'process', async (starting) => {
    const { folder, guard } = starting;
    const [port] = (await freePorts(1)) as [number];
    const address = program.address(port);
    const { program: file, args } = await program.prepare(folder, port);
    const logFile = join(folder, `${program.name}.log`);
    const child = guard.start(file, args, logFile);
    await starting.save({ pid: child.pid ?? null, ports: { http: port }, address });
    await waitUntilReady(program, { address, folder, child, logFile });
    await starting.done(keep);
    return {
      address,
      instance: starting.instance,
      logFile,
      kill: async () => {
        if (hasEnded(child)) return;
        const ended = once(child, 'exit');
        child.ref();
        signalGroup(child.pid ?? 0, 'SIGKILL');
        await ended;
      },
      pause: () => pauseGroup(child.pid ?? 0),
      resume: () => void signalGroup(child.pid ?? 0, 'SIGCONT'),
      stop: starting.stop,
    };
  });
}

async function waitUntilReady(
  program: LocalProgram,
  run: { address: string; folder: string; child: ChildProcess; logFile: string },
): Promise<void> {
  const end = Date.now() + READY_TIMEOUT_MS;
  for (;;) {
    // First the process: on a port that was taken, somebody else answers.
    if (hasEnded(run.child)) return fail(program, run.logFile, 'ended while it started');
    const problem = await program.isReady(run.address, run.folder);
    if (problem === null && !hasEnded(run.child)) return;
    if (Date.now() > end) return fail(program, run.logFile, `was not ready in time: ${problem}`);
    await sleep(50);
  }
}

async function fail(program: LocalProgram, logFile: string, what: string): Promise<never> {
  const output = await readFile(logFile, 'utf8').catch(() => '');
  if (program.portTaken.test(output)) throw new PortTaken(`the port of ${program.name} was taken meanwhile`);
  throw new Error(`${program.name} ${what}; the end of its log:\n${lastLines(output)}`);
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}
