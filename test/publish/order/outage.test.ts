import assert from 'node:assert/strict';
import v8 from 'node:v8';
import sinon from 'sinon';
import type { Outcome } from '../../../src/observe/outcomes.ts';
import { clockOfEach } from '../../support/fake-time.ts';
import { event } from '../fake-cluster.ts';
import { createModelCluster } from './model-cluster.ts';
import { createModelFolder } from './model-folder.ts';
import { type ModelProcess, startProcess } from './model-process.ts';

describe('an outage, with the order of keys', () => {
  const clock = clockOfEach({ now: 1_700_000_000_000 });
  let next = 1_000;

  function publish({ queue }: ModelProcess, key: string, topic = 'orders'): Promise<Outcome> {
    const eventId = String(next++);
    return queue.publish(event(eventId, { key, topic, headers: { eventId } }));
  }

  async function behind(options: Parameters<typeof startProcess>[3] = {}) {
    const cluster = createModelCluster();
    const folder = createModelFolder();
    const process = startProcess(1, folder, cluster, options);
    cluster.weather = 'away';
    process.clusterState.silent('away', performance.now());
    void publish(process, 'k');
    await clock.tickAsync(20);
    return { cluster, folder, process };
  }

  it('a caller has the outcome "backup" at once, and it goes behind those that wait there', async () => {
    const { cluster, process } = await behind();
    cluster.weather = 'up';
    const outcome = publish(process, 'k');
    await clock.tickAsync(5);
    assert.equal(await outcome, 'backup');
    assert.equal(cluster.stored.length, 0);
    assert.ok(process.oldestMs() >= 20);
  });

  it('so has one behind it while a send of its partition has no answer yet', async () => {
    const cluster = createModelCluster();
    const process = startProcess(1, createModelFolder(), cluster);
    await clock.tickAsync(20);
    cluster.weather = 'silent';
    void publish(process, 'k');
    await clock.tickAsync(20);
    process.clusterState.silent('away', performance.now());
    for (let n = 0; n < 3; n++)
      assert.equal(await Promise.race([publish(process, 'k'), clock.tickAsync(50)]), 'backup');
  });

  it('one turn of the event loop puts no more behind others than its share of the heap holds', async () => {
    const { process } = await behind();
    const heap = sinon.stub(v8, 'getHeapStatistics').returns({ heap_size_limit: 800_000 } as v8.HeapInfo);
    try {
      let taken = 0;
      while (!process.queue.rejectIfOverloaded?.(event('0')) && taken < 100) {
        void publish(process, 'k');
        taken++;
      }
      assert.equal(taken, 13);
    } finally {
      heap.restore();
    }
    await clock.tickAsync(20);
    assert.equal(process.queue.rejectIfOverloaded?.(event('0')), false);
  });

  it('an idle process sends within two seconds after the cluster answers, however long it was away', async () => {
    const { cluster, folder, process } = await behind();
    for (const awayMs of [1_000, 3_600_000]) {
      await clock.tickAsync(awayMs);
      cluster.weather = 'up';
      await clock.tickAsync(2_000);
      assert.deepEqual([folder.waiting(), process.oldestMs()], [0, 0]);
      assert.equal(await Promise.race([publish(process, 'k'), clock.tickAsync(50)]), 'published');
      cluster.weather = 'away';
      process.clusterState.silent('away', performance.now());
      void publish(process, 'k');
      await clock.tickAsync(20);
    }
  });

  it('one line says when a topic waits behind its backup, and one when it no longer does', async () => {
    const { cluster, process } = await behind();
    for (let n = 0; n < 20; n++) void publish(process, `k${n}`);
    await clock.tickAsync(1_000);
    cluster.weather = 'up';
    await clock.tickAsync(5_000);
    assert.deepEqual(
      process.lines.filter((line) => line.startsWith('topic ')),
      [
        'topic "orders": new events wait behind earlier events of their partition in the backup',
        'topic "orders": the backup is empty, and events go to the topic again',
      ],
    );
  });

  it('new events go to their topic again although they never stop coming', async () => {
    const { cluster, process } = await behind();
    cluster.weather = 'up';
    const outcomes: Outcome[] = [];
    for (let n = 0; n < 2_000; n++) {
      void publish(process, 'k').then((outcome) => outcomes.push(outcome));
      await clock.tickAsync(1);
    }
    await clock.tickAsync(20);
    assert.equal(outcomes.at(-1), 'published');
    assert.equal(process.oldestMs(), 0);
  });

  it('an event without room beside those that wait for the last ones is sent in its order', async () => {
    const { cluster, folder, process } = await behind({
      behindBackup: { maxEvents: 1, maxBytes: 1_000_000 },
    });
    cluster.weather = 'up';
    for (let n = 0; n < 100; n++) {
      for (let m = 0; m < 3; m++) void publish(process, 'k');
      await clock.tickAsync(17);
    }
    await clock.tickAsync(10_000);
    assert.equal(folder.waiting(), 0);
    const ids = cluster.stored.map(({ id }) => Number(id));
    assert.deepEqual(
      ids,
      ids.toSorted((one, other) => one - other),
    );
    assert.equal(ids.length, 301);
  });

  it('a topic that is refused holds up no other', async () => {
    const { cluster, folder, process } = await behind();
    void publish(process, 'k', 'refused');
    cluster.weather = 'refuses refused';
    await clock.tickAsync(5_000);
    const [one, other] = [publish(process, 'k'), publish(process, 'k', 'refused')];
    await clock.tickAsync(20);
    assert.deepEqual([await one, await other, folder.waiting()], ['published', 'backup', 2]);
    cluster.weather = 'up';
    await clock.tickAsync(12_000);
    assert.deepEqual([folder.waiting(), process.oldestMs()], [0, 0]);
  });

  /** 3,000 events of a topic that is refused wait in the backup. */
  async function refused() {
    const { cluster, folder, process } = await behind();
    for (let n = 0; n < 3_000; n++) {
      void publish(process, 'k', 'refused');
      if (n % 500 === 0) await clock.tickAsync(1_000);
    }
    cluster.weather = 'refuses refused';
    await clock.tickAsync(20_000);
    assert.equal(folder.waiting(), 3_000);
    const readIn = async (ms: number): Promise<number> => {
      const before = folder.read;
      await clock.tickAsync(ms);
      return folder.read - before;
    };
    return { cluster, folder, process, readIn };
  }

  it('of what is refused one batch is read every ten seconds, and nothing for other partitions', async () => {
    const { cluster, folder, process, readIn } = await refused();
    assert.equal(await readIn(60_000), 6 * 2_000);
    await clock.tickAsync(2_000);
    cluster.weather = 'away';
    process.clusterState.silent('away', performance.now());
    void publish(process, 'other');
    await clock.tickAsync(20);
    assert.equal(folder.waiting(), 3_001);
    cluster.weather = 'refuses refused';
    assert.equal(await readIn(2_000), 1);
    assert.equal(folder.waiting(), 3_000);
    cluster.weather = 'up';
    await clock.tickAsync(12_000);
    assert.deepEqual([folder.waiting(), process.oldestMs()], [0, 0]);
  });

  it('of what is behind refused events of an earlier process nothing is read until those are sent', async () => {
    const { cluster, folder, process: earlier } = await refused();
    earlier.isDead = true;
    const process = startProcess(2, folder, cluster);
    await clock.tickAsync(1_000);
    for (let n = 0; n < 50; n++) void publish(process, 'k', 'refused');
    await clock.tickAsync(20_000);
    const before = folder.read;
    await clock.tickAsync(60_000);
    // What the earlier one has left is looked through at each try, and only that.
    assert.ok(
      (folder.read - before) % 3_000 === 0 && folder.read - before <= 7 * 3_000,
      `${folder.read - before}`,
    );
    cluster.weather = 'up';
    await clock.tickAsync(12_000);
    assert.deepEqual([folder.waiting(), process.oldestMs()], [0, 0]);
  });

  for (const whose of ['its own', "an earlier process's"]) {
    it(`${whose} events that cannot be read for a moment are not overtaken, and hold up the others not for ever`, async () => {
      for (const unreadableMs of [3_000, 60_000]) {
        const { cluster, folder, process: first } = await behind();
        const before = String(next - 1);
        folder.isUnreadable = true;
        cluster.weather = 'up';
        first.isDead = whose !== 'its own';
        const process = first.isDead ? startProcess(2, folder, cluster) : first;
        await clock.tickAsync(1_000);
        void publish(process, 'k');
        await clock.tickAsync(unreadableMs);
        if (unreadableMs < 30_000) assert.equal(cluster.stored.length, 0);
        void publish(process, 'k');
        folder.isUnreadable = false;
        await clock.tickAsync(130_000);
        const order = cluster.stored.map(({ id }) => id);
        assert.deepEqual([order.length, folder.waiting(), process.oldestMs()], [3, 0, 0]);
        if (unreadableMs < 30_000) assert.equal(order[0], before);
        process.isDead = true;
      }
    });
  }

  it('memory stays flat however much goes to the backup', async () => {
    const { folder, process } = await behind();
    for (let n = 0; n < 2_000; n++) {
      void publish(process, `k${n % 7}`);
      if (n % 100 === 0) await clock.tickAsync(150);
      assert.ok(process.queue.state().events <= 1);
    }
    await clock.tickAsync(60_000);
    assert.equal(folder.waiting(), 2_001);
  });

  it('what waits for its way is handed out in the last turn of the process', async () => {
    const { folder, process } = await behind();
    folder.room = 0;
    void publish(process, 'k');
    await clock.tickAsync(20);
    const left = process.queue.takeOver(() => true);
    assert.deepEqual(
      left.map(({ event: one }) => one.eventId),
      [String(next - 1)],
    );
  });

  it('where the backup is full, an event waits in memory and goes on in its place', async () => {
    const { cluster, folder, process } = await behind();
    folder.room = 0;
    const full = publish(process, 'k');
    // Longer than the time of its delivery, which does not run yet.
    await clock.tickAsync(20_000);
    assert.deepEqual(process.lost, []);
    cluster.weather = 'up';
    await clock.tickAsync(3_000);
    assert.equal(await full, 'published');
    assert.deepEqual(
      cluster.stored.map(({ id }) => Number(id)),
      [next - 2, next - 1],
    );
  });

  it('at the end of the process, one for which the backup has no room at last is lost, with the alert', async () => {
    const { folder, process } = await behind();
    Object.assign(folder, { room: 0, writeMs: 4_500 });
    const outcome = publish(process, 'k');
    const closed = process.queue.close(5_000);
    await clock.tickAsync(4_600);
    assert.equal(await Promise.race([outcome, clock.tickAsync(1)]), 'lost');
    assert.deepEqual(process.lost, [String(next - 1)]);
    await closed;
  });

  it('what waits there fills a room of its own: one more is lost, and other topics go on', async () => {
    const { cluster, folder, process } = await behind({
      behindBackup: { maxEvents: 2, maxBytes: 1_000_000 },
    });
    cluster.weather = 'refuses refused';
    await clock.tickAsync(5_000);
    void publish(process, 'k', 'refused');
    await clock.tickAsync(9_000);
    assert.equal(folder.waiting(), 1);
    folder.room = 0;
    const [first, second, third] = [1, 2, 3].map(() => publish(process, 'k', 'refused'));
    await clock.tickAsync(20);
    assert.equal(await third, 'lost');
    assert.deepEqual(process.lost, [String(next - 1)]);
    assert.deepEqual(process.queue.state().events, 0);
    assert.equal(await Promise.race([publish(process, 'k'), clock.tickAsync(50)]), 'published');
    cluster.weather = 'up';
    await clock.tickAsync(30_000);
    assert.deepEqual([await first, await second], ['published', 'published']);
  });
});
