import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';

// A shell that outlives us and reads what we write to it. When its input ends without `release`, we are gone, by whatever
// signal: it kills the process groups of the servers, runs the command given to it, if any, and removes the folder.
const GUARD = `
folder=$1; shift; pids=' '
while read -r word id; do
  case $word in
    release) exit 0 ;;
    started) pids="$pids$id " ;;
    ended) pids="\${pids%% $id *} \${pids#* $id }" ;;
  esac
done
for pid in $pids; do kill -s KILL -- "-$pid"; done
for pid in $pids; do
  tries=0
  while [ $tries -lt 40 ] && kill -s 0 -- "-$pid"; do
    # Where nobody reaps orphans (many containers) it stays as a zombie.
    if [ -r "/proc/$pid/stat" ]; then read -r stat <"/proc/$pid/stat"; case $stat in *") Z "*) break ;; esac; fi
    sleep 0.05; tries=$((tries + 1))
  done
done
[ $# -gt 0 ] && "$@"
rm -rf -- "$folder" || { sleep 1; rm -rf -- "$folder"; }
`;

// The server starts only when it is told to: until the guard knows its process id, our death must end it by itself.
const WAIT_THEN_START = 'read -r go || exit 1; exec "$@" </dev/null';

/** Binds servers and their folder to the life of this process, even when it is ended by SIGKILL. */
export interface Guard {
  /** Starts a program as a process group of its own, its output appended to `logFile`. */
  start(program: string, args: readonly string[], logFile: string): ChildProcess;
  /** Binds a process group that one of the programs has made: frozen, it would not see that its parent has died. */
  watch(pid: number): void;
  unwatch(pid: number): void;
  /** Ends the binding: what runs goes on, what is there stays. */
  release(): Promise<void>;
}

/**
 * Needs a POSIX shell.
 * @param folder removed when this process ends without `release`
 * @param cleanUp a command to run then, for what is not a process of ours (a container)
 */
export function guardFolder(folder: string, cleanUp: readonly string[] = []): Guard {
  const shell = spawn('sh', ['-c', GUARD, 'svc-guard', folder, ...cleanUp], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
    cwd: '/',
  });
  const tell = (word: string): void => {
    if (shell.stdin?.writable) shell.stdin.write(`${word}\n`);
  };
  shell.stdin?.on('error', () => {});
  unreference(shell);

  return {
    start(program, args, logFile) {
      const log = openSync(logFile, 'a');
      const child = spawn('sh', ['-c', WAIT_THEN_START, 'svc-start', program, ...args], {
        stdio: ['pipe', log, log],
        detached: true,
      });
      closeSync(log);
      child.stdin?.on('error', () => {});
      child.once('exit', () => tell(`ended ${child.pid}`));
      tell(`started ${child.pid}`);
      child.stdin?.end('go\n');
      unreference(child);
      return child;
    },
    watch: (pid) => tell(`started ${pid}`),
    unwatch: (pid) => tell(`ended ${pid}`),
    async release() {
      if (shell.exitCode !== null || shell.signalCode !== null) return;
      const ended = new Promise((resolve) => shell.once('exit', resolve));
      shell.ref();
      tell('release');
      await ended;
    },
  };
}

// Neither the guard nor a server keeps a test process or a script alive.
function unreference(child: ChildProcess): void {
  child.unref();
  (child.stdin as unknown as { unref?: () => void } | null)?.unref?.();
}
