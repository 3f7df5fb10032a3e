import assert from 'node:assert/strict';
import type { Config } from '../../../src/config/config.ts';
import { createTopicRefusal } from '../../../src/start/commands/recovery.ts';

const config = {
  broker: { topic: 'orders', dlqTopic: 'dead' },
  targets: [{ topic: 'audit' }, { topic: undefined }],
} as unknown as Config;

describe('topics that a recovery writes to', () => {
  const refusalOf = createTopicRefusal(config, ['named', undefined], ['dead', undefined, 'named-dead']);

  for (const topic of ['orders', 'audit', 'named'])
    it(`${topic}: yes`, () => assert.equal(refusalOf(topic), undefined));
  for (const [topic, why] of [
    ['others', /the configuration has no topic "others"\. .* --topic others$/],
    ['dead', /is the dead letter topic itself$/],
    ['named-dead', /is the dead letter topic itself$/],
    ['', /has no topic ""/],
  ] as const) {
    it(`${JSON.stringify(topic)}: no`, () => assert.match(refusalOf(topic) ?? '', why));
  }

  it('a hundred topics are named, and no more', () => {
    const refuse = createTopicRefusal(config, [], []);
    const reasons = Array.from({ length: 200 }, (_, n) => refuse(`topic-${n}`) ?? '');
    assert.match(reasons[99] ?? '', /has no topic "topic-99"/);
    assert.match(reasons[100] ?? '', /^more than 100 topics that the configuration does not have/);
    assert.equal(new Set(reasons).size, 101);
    assert.equal(refuse('topic-0'), reasons[0]);
  });
});
