import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { lastLines } from './commands.ts';
import type { Guard } from './guard.ts';
import type { Instance } from './instances.ts';
import { freePorts } from './ports.ts';
import { pauseGroup, processesBelow, signalGroup, waitForEnd } from './processes.ts';
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
  /** Ends it at once, as a crash does (SIGKILL). Its data stay. */
  kill(): Promise<void>;
  /** Starts it again on the same port with the same data, after a `kill` where it still runs; waits for its answer. */
  restart(): Promise<void>;
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
    const { start, ...controls } = createControls(guard, () => guard.start(file, args, logFile));
    const launch = async (): Promise<void> => {
      const child = start();
      await starting.save({ pid: child.pid ?? null, ports: { tcp: port }, address });
      await waitUntilReady(program, { address, folder, child, logFile });
    };
    await launch();
    await starting.done(keep);
    return {
      address,
      get instance() {
        return starting.instance;
      },
      logFile,
      ...controls,
      restart: async () => {
        await controls.kill();
        await launch();
      },
      stop: starting.stop,
    };
  });
}

interface Controls extends Pick<LocalServer, 'kill' | 'pause' | 'resume'> {
  start(): ChildProcess;
}

function createControls(guard: Guard, launch: () => ChildProcess): Controls {
  let child: ChildProcess | undefined;
  let frozen: number[] = [];
  return {
    start: () => {
      child = launch();
      return child;
    },
    async kill() {
      const pid = child?.pid;
      if (child === undefined || pid === undefined || hasEnded(child)) return;
      const ended = once(child, 'exit');
      child.ref();
      const all = [pid, ...(await processesBelow(pid))];
      for (const each of all) signalGroup(each, 'SIGKILL');
      await ended;
      for (const each of all) await waitForEnd(each);
      for (const each of frozen.splice(0)) guard.unwatch(each);
    },
    async pause() {
      if (child?.pid === undefined) return;
      await pauseGroup(child.pid);
      // It starts none any more, so these are all.
      frozen = await processesBelow(child.pid);
      for (const each of frozen) guard.watch(each);
      await Promise.all(frozen.map(pauseGroup));
    },
    resume() {
      for (const each of [...frozen, child?.pid ?? 0]) signalGroup(each, 'SIGCONT');
      for (const each of frozen.splice(0)) guard.unwatch(each);
    },
  };
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
