import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { logInto, useLogger } from '../../support/log.ts';
import { requiring } from '../../support/requires.ts';
import { firstClaim } from './first-claim.ts';

const source = new URL('./first-claim.ts', import.meta.url).href;
const tells = `const { firstClaim } = await import(${JSON.stringify(source)}); console.log((await firstClaim()).owner);`;
const lives = 'setInterval(() => {}, 1000);';

describe('the name of a relay', () => {
  const children: ChildProcess[] = [];
  let isGone: (owner: string) => boolean;
  before(async () => {
    ({ isGone } = await firstClaim());
  });
  afterEach(() => {
    for (const child of children.splice(0)) child.kill('SIGKILL');
  });

  async function start(command: string, ...args: string[]): Promise<{ child: ChildProcess; owner: string }> {
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    children.push(child);
    const [text] = await once(child.stdout as NodeJS.ReadableStream, 'data');
    return { child, owner: String(text).trim() };
  }
  /** As a relay that starts beside it says in the log. */
  async function shown(owner: string): Promise<string | undefined> {
    const lines: string[] = [];
    useLogger(logInto(lines));
    await firstClaim([{ owner, shards: 3, leaseMs: 4_000 }]);
    return /are held by other relays: 3 by (.*?) until /.exec(lines.join('\n'))?.[1];
  }
  const startNode = (script: string) => start(process.execPath, '--input-type=module', '--eval', script);

  it('is one of its own, and shows host and process', async () => {
    const [{ owner: one }, { owner: other }] = [await firstClaim(), await firstClaim()];
    assert.notEqual(one, other);
    assert.match((await shown(one)) ?? '', new RegExp(`:${process.pid}$`));
    assert.ok(one.length <= 255);
    assert.equal(isGone(one), false);
  });

  for (const [owner, says] of [
    ['', ''],
    ['one', 'one'],
    ['host:1:2b1c2d3e-0000-4000-8000-000000000000', 'host:1'],
    ['host:17:2b1c2d3e-0000-4000-8000-000000000000', 'host:17'],
  ] as const)
    it(`that is not understood is not gone: "${owner}"`, async () => {
      assert.deepEqual([isGone(owner), await shown(owner)], [false, says]);
    });

  requiring('proc', 'on a system that tells when a process began', function () {
    this.timeout(20_000);

    it('is gone after kill -9, and not before, frozen or not', async () => {
      const { child, owner } = await startNode(tells + lives);
      assert.equal(isGone(owner), false);
      child.kill('SIGSTOP');
      assert.equal(isGone(owner), false);
      child.kill('SIGKILL');
      await once(child, 'exit');
      const lines: string[] = [];
      useLogger(logInto(lines));
      assert.equal(isGone(owner), true);
      assert.match(lines.join('\n'), new RegExp(`process .*:${child.pid} of this host has ended`));
    });

    it('is gone where its parent has not asked how it ended', async () => {
      const node = `${process.execPath} --input-type=module --eval '${tells}'`;
      const { owner } = await start('sh', '-c', `${node} & exec sleep 10`);
      for (const endMs = performance.now() + 5_000; !isGone(owner); ) {
        assert.ok(performance.now() < endMs, 'it is not seen to have ended');
        await new Promise((done) => setTimeout(done, 20));
      }
    });

    it('is gone where another process has its number, or its thread has ended', async () => {
      const { owner: own } = await firstClaim();
      const [, head, task, began, tail] = /^(.*)\.(\d+)\.(\d+)(:[^:]*)$/.exec(own) ?? [];
      assert.equal(isGone(`${head}.${task}.${began}${tail}`), false);
      assert.equal(isGone(`${head}.${task}.${Number(began) - 1}${tail}`), true);
      assert.equal(isGone(`${head}.1.${began}${tail}`), true);
    });

    it('of another host, boot or container is never gone: nobody can ask there', async () => {
      const { child, owner } = await startNode(tells + lives);
      child.kill('SIGKILL');
      await once(child, 'exit');
      const elsewhere = owner.replace(/:[0-9a-f](?=[0-9a-f]{31}\.)/, (found) =>
        found === ':0' ? ':1' : ':0',
      );
      assert.notEqual(elsewhere, owner);
      assert.deepEqual([isGone(owner), isGone(elsewhere)], [true, false]);
    });
  });

  requiring(['proc', 'mounts'], 'in a container beside this one, with the same name', function () {
    this.timeout(20_000);

    it('is not gone, though no process here has its number', async () => {
      const { owner } = await start(
        ...(['unshare', '--pid', '--fork', '--kill-child', '--mount-proc', process.execPath] as const),
        ...['--input-type=module', '--eval', tells + lives],
      );
      const dead = owner
        .replace(/:(\d+):(?=[0-9a-f]{32}\.)/, ':999999:')
        .replace(/\.\d+\.\d+\./, '.999999.999999.');
      assert.deepEqual([isGone(owner), isGone(dead)], [false, false]);
    });
  });
});
