import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, readdirSync, statSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { leaseWorkerId } from '../../src/envelope/ids.ts';
import { claimsIn, ownStamp } from '../../src/ground/claims.ts';
import type { Logger } from '../../src/observe/logger.ts';
import { temporaryFolder } from '../support/folders.ts';
import { useLogger } from '../support/log.ts';
import { requiring } from '../support/requires.ts';

const childFile = fileURLToPath(new URL('./fixtures/lease-child.ts', import.meta.url));

type WorkerLease = ReturnType<typeof leaseWorkerId>;

describe('leaseWorkerId', function () {
  this.timeout(60_000);
  let folder = '';
  let warnings: string[] = [];
  const leases: WorkerLease[] = [];
  const children: ChildProcess[] = [];
  const logger = { warn: (message: string) => warnings.push(message) } as unknown as Logger;

  beforeEach(() => {
    folder = temporaryFolder('lease-test');
    warnings = [];
  });
  afterEach(async () => {
    for (const lease of leases.splice(0)) lease.release();
    await Promise.all(children.splice(0).map(kill));
  });

  function lease(options: Parameters<typeof leaseWorkerId>[0] = {}): WorkerLease {
    useLogger(logger);
    const made = leaseWorkerId({ directory: folder, ...options });
    leases.push(made);
    return made;
  }

  function start(...args: string[]): ChildProcess {
    const child = spawn(process.execPath, [...process.execArgv, childFile, folder, ...args], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    children.push(child);
    return child;
  }

  async function readLines(child: ChildProcess, count: number): Promise<string[]> {
    const reader = createInterface({ input: child.stdout as NodeJS.ReadableStream });
    const lines: string[] = [];
    reader.on('line', (line) => {
      lines.push(line);
      if (lines.length === count) reader.close();
    });
    await once(reader, 'close');
    return lines;
  }

  /** All are up before the first may lease. */
  async function leaseIn(...started: ChildProcess[]): Promise<string[]> {
    await Promise.all(started.map((child) => readLines(child, 1)));
    const answers = started.map((child) => readLines(child, 1));
    for (const child of started) child.stdin?.write('lease\n');
    return (await Promise.all(answers)).flat();
  }

  async function kill(child: ChildProcess): Promise<void> {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  }

  it('gives 50 processes that start at once 50 ids, though all want the same one, and gets them back', async () => {
    const started = Array.from({ length: 50 }, () => start('500'));
    const lines = await leaseIn(...started);
    assert.equal(new Set(lines).size, 50, lines.join(', '));
    assert.ok(lines.every((line) => /^\d{1,4} true$/.test(line)));
    assert.equal(readdirSync(folder).length, 50);
    await Promise.all(
      started.map(async (child) => {
        const exited = once(child, 'exit');
        child.stdin?.end();
        await exited;
      }),
    );
    assert.deepEqual(readdirSync(folder), []);
  });

  it('gives every worker thread of a process its own', async () => {
    const child = start('12', '4');
    const fromThreads = (await readLines(child, 5)).filter((line) => line !== 'ready');
    child.stdin?.write('lease\n');
    const lines = [...fromThreads, ...(await readLines(child, 1))];
    assert.equal(new Set(lines).size, 5, lines.join(', '));
    assert.notEqual(lease({ startAt: 12 }).workerId, 12);
  });

  it('derives ids that processes and their threads do not share', async () => {
    const started = Array.from({ length: 4 }, () => start('derived', '3'));
    const lines = await Promise.all(
      started.map(async (child) => {
        const fromThreads = (await readLines(child, 4)).filter((line) => line !== 'ready');
        child.stdin?.write('lease\n');
        return [...fromThreads, ...(await readLines(child, 1))];
      }),
    );
    assert.equal(new Set(lines.flat()).size, 16, lines.join(', '));
    assert.ok(lines.flat().every((line) => /^\d{1,4} true$/.test(line)));
  });

  it('takes over from a process that was killed, and tidies up', async () => {
    const child = start('12');
    assert.deepEqual(await leaseIn(child), ['12 true']);
    assert.notEqual(lease({ startAt: 12 }).workerId, 12);
    leases.pop()?.release();
    await kill(child);
    assert.equal(readdirSync(folder).length, 1);
    const own = lease({ startAt: 12 });
    assert.deepEqual([own.workerId, own.exclusive], [12, true]);
    assert.equal(readdirSync(folder).length, 1);
  });

  it('leaves claims of other hosts alone for a week', () => {
    const foreign = { space: 'ffffffff', pid: 1, task: 1, began: 1 };
    const { file } = claimsIn(folder, foreign).add('12');
    assert.notEqual(lease({ startAt: 12 }).workerId, 12);
    const weekAgo = Date.now() / 1000 - 7 * 24 * 3600;
    utimesSync(join(folder, file), weekAgo + 60, weekAgo + 60);
    assert.notEqual(lease({ startAt: 12 }).workerId, 12);
    utimesSync(join(folder, file), weekAgo - 1, weekAgo - 1);
    assert.equal(lease({ startAt: 12 }).workerId, 12);
  });

  it('uses the last free id of 1,024, and then one twice, which it says', () => {
    const own = ownStamp();
    for (let id = 0; id < 1024; id++) if (id !== 77) claimsIn(folder, own).add(String(id));
    assert.equal(lease({ startAt: 12 }).workerId, 77);
    const none = lease({ startAt: 12 });
    assert.deepEqual([none.workerId, none.exclusive], [12, false]);
    assert.deepEqual(warnings, [
      'no worker id is free on this host; svc uses 12: event ids can repeat if another process uses it too',
    ]);
  });

  requiring('proc', 'with the number of a process, and when it began', () => {
    it('takes over from a worker thread that was terminated in a process that lives', async () => {
      const worker = new Worker(childFile, {
        argv: [folder, '12'],
        stdout: true,
      });
      await once(worker.stdout, 'data');
      assert.equal(readdirSync(folder).length, 1);
      await worker.terminate();
      assert.equal(lease({ startAt: 12 }).workerId, 12);
      assert.deepEqual(warnings, []);
    });

    it('knows a living process with the number of a dead one', () => {
      const own = ownStamp();
      claimsIn(folder, { ...own, began: own.began - 1 }).add('12');
      assert.equal(lease({ startAt: 12 }).workerId, 12);
      claimsIn(folder, own).add('13');
      assert.notEqual(lease({ startAt: 13 }).workerId, 13);
    });

    it('takes the id of a dead process where none is free', () => {
      const own = ownStamp();
      for (let id = 0; id < 1024; id++)
        claimsIn(folder, id === 300 ? { ...own, began: own.began - 1 } : own).add(String(id));
      assert.equal(lease({ startAt: 12 }).workerId, 300);
      assert.deepEqual(warnings, []);
    });
  });

  it('gives an id back', () => {
    const first = lease({ startAt: 12 });
    const listeners = process.listenerCount('exit');
    first.release();
    first.release();
    assert.equal(process.listenerCount('exit'), listeners - 1);
    assert.equal(lease({ startAt: 12 }).workerId, 12);
  });

  it('keeps a configured id, and says who else uses it', () => {
    assert.equal(lease({ workerId: 1023 }).exclusive, true);
    const second = lease({ workerId: 1023 });
    assert.deepEqual([second.workerId, second.exclusive], [1023, false]);
    assert.deepEqual(warnings, [
      `worker id 1023 is configured, but process ${process.pid} uses it too: event ids can repeat`,
    ]);
    assert.notEqual(lease({ startAt: 1023 }).workerId, 1023);
  });

  it('refuses a configured id out of range', () => {
    assert.equal(lease({ workerId: 0 }).workerId, 0);
    for (const workerId of [-1, 1024]) {
      assert.throws(() => leaseWorkerId({ workerId }), { message: 'workerId must be between 0 and 1023' });
    }
  });

  it('uses the derived id where the folder cannot be used, and says so', () => {
    const file = join(folder, 'file');
    writeFileSync(file, '');
    for (const directory of [join(file, 'below'), file]) {
      const derived = lease({ directory });
      assert.ok(derived.workerId >= 0 && derived.workerId <= 1023 && !derived.exclusive);
      derived.release();
    }
    assert.equal(warnings.length, 2);
    assert.match(warnings[0] ?? '', /cannot be leased in .* \(ENOTDIR\); using \d+: event ids can repeat/);
    if (process.getuid?.() === 0) return;
    chmodSync(folder, 0o500);
    assert.equal(lease().exclusive, false);
    chmodSync(folder, 0o700);
  });

  it('does not follow a link that somebody put in place of the folder', () => {
    const link = join(folder, 'link');
    symlinkSync(folder, link);
    assert.equal(lease({ directory: link }).exclusive, false);
    assert.match(warnings[0] ?? '', /not a directory/);
  });

  it('makes its folder for this user alone, and leaves strange files alone', () => {
    const directory = join(folder, 'a', 'b');
    assert.equal(lease({ directory }).exclusive, true);
    if (process.platform !== 'win32') assert.equal(statSync(directory).mode & 0o777, 0o700);
    writeFileSync(join(folder, '12.notes'), '');
    assert.equal(lease({ startAt: 12 }).workerId, 12);
    assert.ok(readdirSync(folder).includes('12.notes'));
  });

  it('starts at an id of its own without being told where', () => {
    const first = lease();
    const second = lease();
    assert.notEqual(first.workerId, second.workerId);
    assert.deepEqual(warnings, []);
  });
});
