import assert from 'node:assert/strict';
import { createPartitionCounts } from '../../../src/publish/main/cluster-state.ts';
import { useClock } from '../../support/fake-time.ts';

const countMaxAgeMs = 300_000;

describe('partition counts', () => {
  function counts(answers: (number | undefined | Error)[]) {
    let nowMs = 0;
    let asked = 0;
    useClock({ monotonic: () => nowMs });
    const made = createPartitionCounts(async () => {
      const answer = answers[asked++];
      if (answer instanceof Error) throw answer;
      return answer;
    });
    return { counts: made, asked: () => asked, at: (ms: number) => (nowMs = ms) };
  }

  it('knows nothing until it has asked, and shares questions', async () => {
    const { counts: made, asked } = counts([6]);
    assert.equal(made.known('a'), undefined);
    assert.deepEqual(await Promise.all([made.ask('a'), made.ask('a')]), [6, 6]);
    assert.equal(made.known('a'), 6);
    assert.equal(asked(), 1);
  });

  it('keeps no answer that says nothing, and never rejects', async () => {
    const { counts: made } = counts([undefined, 0, new Error('away'), 3]);
    for (const expected of [undefined, undefined, undefined, 3]) assert.equal(await made.ask('a'), expected);
    assert.equal(made.known('a'), 3);
  });

  it('asks again after five minutes, and goes on with the old count meanwhile', async () => {
    const { counts: made, asked, at } = counts([6, 12, undefined]);
    await made.ask('a');
    at(countMaxAgeMs - 1);
    made.known('a');
    assert.equal(asked(), 1);
    at(countMaxAgeMs);
    assert.deepEqual([made.known('a'), made.known('a')], [6, 6]);
    assert.equal(asked(), 2);
    await made.ask('a');
    assert.equal(made.known('a'), 12);
    at(countMaxAgeMs * 2);
    assert.equal(made.known('a'), 12);
    await made.ask('a');
    assert.equal(made.known('a'), 12, 'a cluster that is away does not unsay it');
  });

  it('asks for no topic again among 50,000, and forgets one that is not in use', async () => {
    const { counts: made, asked } = counts(Array.from({ length: 50_001 }, () => 1));
    for (let topic = 0; topic < 50_000; topic++) await made.ask(`t${topic}`);
    assert.equal(made.known('t0'), 1);
    await made.ask('t50000');
    assert.deepEqual([made.known('t0'), made.known('t1'), made.known('t50000')], [1, undefined, 1]);
    assert.equal(asked(), 50_001);
  });
});
