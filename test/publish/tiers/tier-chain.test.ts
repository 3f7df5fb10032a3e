import assert from 'node:assert/strict';
import { createTierChain, type Tier } from '../../../src/publish/tiers/tiers.ts';
import { failedEvent } from '../failed-event.ts';

function tier(name: Tier['name'], answer: boolean | Error): Tier & { readonly seen: string[] } {
  const seen: string[] = [];
  return {
    name,
    seen,
    async store({ event }) {
      seen.push(event.eventId);
      if (answer instanceof Error) throw answer;
      return answer;
    },
    async close() {},
  };
}

function over(...tiers: Tier[]) {
  const log: string[] = [];
  const made = createTierChain({
    tiers,
    onKept: (name) => log.push(`kept ${name}`),
    onDlqFailed: () => log.push('dlq failed'),
    onLost: () => log.push('lost'),
  });
  return { ...made, log };
}

describe('the chain of tiers', () => {
  it('the dead letter topic first', async () => {
    const backup = tier('backup', true);
    const { next, log } = over(tier('dlq', true), backup);
    assert.equal(await next(failedEvent('1')), 'dlq');
    assert.deepEqual([log, backup.seen], [['kept dlq'], []]);
  });

  it('then the backup, with the failure of the dead letter topic counted', async () => {
    const { next, log } = over(tier('dlq', false), tier('backup', true));
    assert.equal(await next(failedEvent('1')), 'backup');
    assert.deepEqual(log, ['dlq failed', 'kept backup']);
  });

  it('then lost, with the alert', async () => {
    const { next, log } = over(tier('dlq', false), tier('backup', false));
    assert.equal(await next(failedEvent('1')), 'lost');
    assert.deepEqual(log, ['dlq failed', 'lost']);
  });

  it('a tier that is not configured is no end: the next one is tried, and the last word is lost', async () => {
    assert.equal(await over(tier('backup', true)).next(failedEvent('1')), 'backup');
    assert.equal(await over().next(failedEvent('1')), 'lost');
  });

  it('a tier that throws against its promise has not stored', async () => {
    const { next } = over(tier('dlq', new TypeError()), tier('backup', true));
    assert.equal(await next(failedEvent('1')), 'backup');
  });

  it('a process that ends does not wait for a topic, unless that is all there is', async () => {
    const failure = {
      kind: 'retriable',
      cause: 'Shutdown',
      message: 'svc stops',
      endedBy: 'shutdown',
    } as const;
    const dlq = tier('dlq', true);
    assert.equal(await over(dlq, tier('backup', true)).next(failedEvent('1', { failure })), 'backup');
    assert.deepEqual(dlq.seen, []);
    assert.equal(await over(dlq).next(failedEvent('1', { failure })), 'dlq');
  });

  it('writes no letter for the time that a wrong clock gave it, unless that is all there is', async () => {
    const failure = { kind: 'fatal', cause: 'INVALID_TIMESTAMP', message: 'the clock' } as const;
    const dlq = tier('dlq', true);
    assert.equal(await over(dlq, tier('backup', true)).next(failedEvent('1', { failure })), 'backup');
    assert.deepEqual(dlq.seen, []);
    assert.equal(await over(dlq).next(failedEvent('1', { failure })), 'dlq');
  });

  it('knows what is under way', async () => {
    let answer: (stored: boolean) => void = () => {};
    const slow: Tier = { ...tier('backup', true), store: () => new Promise((resolve) => (answer = resolve)) };
    const { next, inFlight } = over(slow);
    const outcome = next(failedEvent('1'));
    assert.deepEqual(
      [...inFlight()].map(({ event }) => event.eventId),
      ['1'],
    );
    await undefined;
    answer(true);
    await outcome;
    assert.deepEqual([...inFlight()], []);
  });
});
