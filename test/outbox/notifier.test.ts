import assert from 'node:assert/strict';
import { createNotifier } from '../../src/outbox/join.ts';
import { clockOfEach } from '../support/fake-time.ts';

const noticeIntervalMs = 100;

describe('outbox: notices to other processes', () => {
  const time = clockOfEach();
  const sent: { readonly shards: readonly number[]; readonly atMs: number }[] = [];
  let failing = false;

  const open = () =>
    createNotifier({
      async send(shards) {
        sent.push({ shards, atMs: time.now });
        if (failing) throw new Error('away');
      },
    });

  beforeEach(() => {
    sent.length = 0;
    failing = false;
  });

  it('go out at once, and then one at most per interval, with all shards of that time', async () => {
    const notifier = open();
    notifier.add(3);
    for (let ms = 0; ms < 200; ms++) {
      notifier.add(ms % 2 === 0 ? 7 : 5);
      await time.tickAsync(1);
    }
    assert.deepEqual(sent.slice(0, 2), [
      { shards: [3], atMs: 0 },
      { shards: [7, 5], atMs: noticeIntervalMs },
    ]);
    await time.tickAsync(1_000);
    assert.equal(sent.length, 3);
  });

  it('are not tried at each row while the database refuses them', async () => {
    const notifier = open();
    failing = true;
    for (let ms = 0; ms < 3_000; ms += 10) {
      notifier.add(1);
      await time.tickAsync(10);
    }
    assert.deepEqual(
      sent.map(({ atMs }) => atMs),
      [0, 500, 1_500],
    );
    failing = false;
    await time.tickAsync(1_000);
    assert.equal(sent.length, 4);
  });

  it('end with the process', async () => {
    const notifier = open();
    notifier.add(1);
    await time.tickAsync(10);
    notifier.add(2);
    notifier.stop();
    await time.tickAsync(1_000);
    assert.equal(sent.length, 1);
  });
});
