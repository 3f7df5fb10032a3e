import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { inTime, within } from '../../src/ground/clock.ts';
import { clockOfEach } from '../support/fake-time.ts';

const never = new Promise<never>(() => {});
const late = (): string => 'late';

describe('a wait with a limit', () => {
  const clock = clockOfEach();

  it('gives the result that comes in time, and leaves no timer', async () => {
    for (const keepsAlive of [true, false]) {
      assert.equal(await inTime(Promise.resolve(1), { limitMs: 100, keepsAlive, late }), 1);
      assert.equal(clock.countTimers(), 0);
    }
  });

  it('fails as the work fails, and leaves no timer', async () => {
    const failed = inTime(Promise.reject(new Error('refused')), { limitMs: 100, keepsAlive: true, late });
    await assert.rejects(failed, /refused/);
    assert.equal(clock.countTimers(), 0);
  });

  it('gives what stands in for a result at the limit, not before', async () => {
    let result: unknown;
    void inTime(never, { limitMs: 100, keepsAlive: false, late }).then((value) => {
      result = value;
    });
    await clock.tickAsync(99);
    assert.equal(result, undefined);
    await clock.tickAsync(1);
    assert.equal(result, 'late');
  });

  it('leaves what is asked half of the time where the process stood still', async () => {
    const answer = new Promise((resolve) => setTimeout(resolve, 149, 'done'));
    const waiting = inTime(answer, { limitMs: 100, keepsAlive: false, late });
    // One turn of the event loop that is longer than the limit: the first timer is late, and nothing else has run.
    clock.jump(100);
    await clock.tickAsync(49);
    assert.equal(await waiting, 'done');
  });

  it('throws what stands in for a result', async () => {
    const waiting = inTime(never, {
      limitMs: 100,
      keepsAlive: false,
      late: () => {
        throw new Error('no answer');
      },
    });
    const rejected = assert.rejects(waiting, /no answer/);
    await clock.tickAsync(100);
    await rejected;
  });

  it('does not ask what stands in for a result that came in time', async () => {
    let asked = 0;
    await inTime(Promise.resolve(), { limitMs: 100, keepsAlive: false, late: () => asked++ });
    await clock.tickAsync(1_000);
    assert.equal(asked, 0);
  });

  it('waits on and on where there is no limit', async () => {
    const waiting = inTime(new Promise((resolve) => setTimeout(resolve, 2 ** 30, 'done')), {
      limitMs: Number.POSITIVE_INFINITY,
      keepsAlive: true,
      late,
    });
    assert.equal(clock.countTimers(), 1);
    await clock.tickAsync(2 ** 30);
    assert.equal(await waiting, 'done');
  });

  it('is not bothered by work that fails after the limit', async () => {
    const unhandled: unknown[] = [];
    const listen = (reason: unknown): void => void unhandled.push(reason);
    process.on('unhandledRejection', listen);
    try {
      const work = new Promise<void>((_, reject) => setTimeout(reject, 200, new Error('too late')));
      const first = inTime(work, { limitMs: 100, keepsAlive: true, late });
      const second = within(100, work);
      await clock.tickAsync(100);
      assert.deepEqual([await first, await second], ['late', false]);
      await clock.tickAsync(100);
      clock.restore();
      await new Promise(setImmediate);
      assert.deepEqual(unhandled, []);
    } finally {
      process.off('unhandledRejection', listen);
    }
  });

  it('says whether all was done within a deadline', async () => {
    assert.equal(await within(100, Promise.resolve('whatever')), true);
    const waiting = within(100, never);
    await clock.tickAsync(100);
    assert.equal(await waiting, false);
    assert.equal(clock.countTimers(), 0);
  });

  it('keeps the process alive only where it is told to', async () => {
    clock.restore();
    const module = new URL('../../src/ground/clock.ts', import.meta.url).href;
    const run = async (wait: string): Promise<string> => {
      const text = `import { inTime, within } from ${JSON.stringify(module)};
        process.on('exit', () => process.stdout.write('ended'));
        const never = new Promise(() => {});
        const late = () => 'late ';
        ${wait}.then((value) => process.stdout.write(String(value)));`;
      const args = ['--experimental-strip-types', '--no-warnings', '--input-type=module', '--eval', text];
      return (await promisify(execFile)(process.execPath, args)).stdout;
    };
    assert.equal(await run('inTime(never, { limitMs: 50, keepsAlive: true, late })'), 'late ended');
    assert.equal(await run('inTime(never, { limitMs: 50, keepsAlive: false, late })'), 'ended');
    assert.equal(await run('within(50, never)'), 'falseended');
  }).timeout(20_000);
});
