import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

// What a server on this machine costs, from /proc: Linux only.

const ticksPerSecond = 100;

/** CPU of the process that listens on a port, and of its children, in seconds so far. Those that have ended count in their parent. */
export function cpuSecondsOf(port: number): number {
  const server = listenerOf(port);
  let ticks = 0;
  for (const pid of processIds()) {
    const fields = statOf(pid);
    if (pid !== server && Number(fields[1]) !== server) continue;
    const [user, system, endedUser, endedSystem] = fields.slice(11, 15).map(Number) as [
      number,
      number,
      number,
      number,
    ];
    ticks += user + system + (pid === server ? endedUser + endedSystem : 0);
  }
  return ticks / ticksPerSecond;
}

/** Connections to a port that stand. */
export function connectionsTo(port: number): number {
  return tcpLines().filter(({ localPort, state }) => localPort === port && state === '01').length;
}

function listenerOf(port: number): number {
  const inodes = new Set(
    tcpLines()
      .filter(({ localPort, state }) => localPort === port && state === '0A')
      .map(({ inode }) => `socket:[${inode}]`),
  );
  const found = processIds().find((pid) => filesOf(pid).some((file) => inodes.has(file)));
  if (found === undefined) throw new Error(`nothing listens on port ${port}`);
  return found;
}

const processIds = (): readonly number[] =>
  readdirSync('/proc').flatMap((name) => (/^\d+$/.test(name) ? [Number(name)] : []));

/** Fields behind the name of the program, which may have spaces: state, parent, and so on. */
function statOf(pid: number): readonly string[] {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return text.slice(text.lastIndexOf(')') + 2).split(' ');
  } catch {
    return [];
  }
}

function filesOf(pid: number): readonly string[] {
  const folder = `/proc/${pid}/fd`;
  try {
    return readdirSync(folder).map((name) => readlinkSync(`${folder}/${name}`));
  } catch {
    return [];
  }
}

function tcpLines(): readonly {
  readonly localPort: number;
  readonly state: string;
  readonly inode: string;
}[] {
  return ['tcp', 'tcp6'].flatMap((name) =>
    readFileSync(`/proc/net/${name}`, 'utf8')
      .trim()
      .split('\n')
      .slice(1)
      .map((line) => {
        const fields = line.trim().split(/\s+/);
        const localPort = Number.parseInt(fields[1]?.split(':')[1] ?? '', 16);
        return { localPort, state: fields[3] ?? '', inode: fields[9] ?? '' };
      }),
  );
}
