import assert from 'node:assert/strict';
import { createChannel } from '../../../../src/adapters/kafkajs/kafkajs-topic-reader.ts';

const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;

describe('the hand-over between a consumer and a recovery', () => {
  it('keeps no process alive, neither while nothing comes nor while nobody takes', async () => {
    // Until mocha has set its own.
    await Promise.resolve();
    const before = timers();
    const handOver = createChannel<string>(60_000);
    const taken = handOver.take();
    assert.equal(timers(), before);
    const given = handOver.give('one', () => Promise.resolve());
    assert.equal(await taken, 'one');
    assert.equal(timers(), before);
    handOver.end();
    await given;
  });
});
