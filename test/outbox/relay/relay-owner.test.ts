import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { isOwnerGone, newOwner, shownOwner } from '../../../src/outbox/relay/relay.ts';
import { requiring } from '../../support/requires.ts';

const source = new URL('../../../src/outbox/relay/relay.ts', import.meta.url).href;
const tells = `const { newOwner } = await import(${JSON.stringify(source)}); console.log(newOwner());`;
const lives = 'setInterval(() => {}, 1000);';

describe('the name of a relay', () => {
  const children: ChildProcess[] = [];
  afterEach(() => {
    for (const child of children.splice(0)) child.kill('SIGKILL');
  });

  async function start(command: string, ...args: string[]): Promise<{ child: ChildProcess; owner: string }> {
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    children.push(child);
    const [text] = await once(child.stdout as NodeJS.ReadableStream, 'data');
    return { child, owner: String(text).trim() };
  }
  const startNode = (script: string) => start(process.execPath, '--input-type=module', '--eval', script);

  it('is one of its own, and shows host and process', () => {
    const [one, other] = [newOwner(), newOwner()];
    assert.notEqual(one, other);
    assert.match(shownOwner(one), new RegExp(`:${process.pid}$`));
    assert.ok(one.length <= 255);
    assert.equal(isOwnerGone(one), false);
  });

  it('that is not understood is not gone', () => {
    for (const owner of ['', 'one', 'host:1:2b1c2d3e-0000-4000-8000-000000000000']) {
      assert.equal(isOwnerGone(owner), false);
      assert.doesNotThrow(() => shownOwner(owner));
    }
    assert.equal(shownOwner('host:17:2b1c2d3e-0000-4000-8000-000000000000'), 'host:17');
  });

  requiring('proc', 'on a system that tells when a process began', function () {
    this.timeout(20_000);

    it('is gone after kill -9, and not before, frozen or not', async () => {
      const { child, owner } = await startNode(tells + lives);
      assert.equal(isOwnerGone(owner), false);
      child.kill('SIGSTOP');
      assert.equal(isOwnerGone(owner), false);
      child.kill('SIGKILL');
      await once(child, 'exit');
      assert.equal(isOwnerGone(owner), true);
    });

    it('is gone where its parent has not asked how it ended', async () => {
      const node = `${process.execPath} --input-type=module --eval '${tells}'`;
      const { owner } = await start('sh', '-c', `${node} & exec sleep 10`);
      for (const endMs = performance.now() + 5_000; !isOwnerGone(owner); ) {
        assert.ok(performance.now() < endMs, 'it is not seen to have ended');
        await new Promise((done) => setTimeout(done, 20));
      }
    });

    it('is gone where another process has its number, or its thread has ended', () => {
      const own = newOwner();
      const [, head, task, began, tail] = /^(.*)\.(\d+)\.(\d+)(:[^:]*)$/.exec(own) ?? [];
      assert.equal(isOwnerGone(`${head}.${task}.${began}${tail}`), false);
      assert.equal(isOwnerGone(`${head}.${task}.${Number(began) - 1}${tail}`), true);
      assert.equal(isOwnerGone(`${head}.1.${began}${tail}`), true);
    });

    it('of another host, boot or container is never gone: nobody can ask there', async () => {
      const { child, owner } = await startNode(tells + lives);
      child.kill('SIGKILL');
      await once(child, 'exit');
      const elsewhere = owner.replace(/:[0-9a-f](?=[0-9a-f]{31}\.)/, (found) =>
        found === ':0' ? ':1' : ':0',
      );
      assert.notEqual(elsewhere, owner);
      assert.deepEqual([isOwnerGone(owner), isOwnerGone(elsewhere)], [true, false]);
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
      assert.deepEqual([isOwnerGone(owner), isOwnerGone(dead)], [false, false]);
    });
  });
});
