import assert from 'node:assert/strict';
import { SvcError } from '../../src/ground/errors.ts';
import type { Controls, DeadLetterAsk } from '../../src/manage/controls.ts';
import { fakeControls } from './fake-controls.ts';
import { ask } from './http-client.ts';
import { serverHarness } from './server-harness.ts';

const path = '/actuator/svc/dlq';
const never: Controls['deadLetterTopic'] = {
  missing: () => assert.fail('it was asked'),
  newest: () => assert.fail('it was read'),
};

describe('GET /actuator/svc/dlq?source=topic', () => {
  const { start } = serverHarness();
  const withTopic = (
    deadLetterTopic: Partial<Controls['deadLetterTopic']>,
    options: object = {},
  ): Promise<number> =>
    start(
      options,
      fakeControls({ deadLetterTopic: { ...fakeControls().deadLetterTopic, ...deadLetterTopic } }),
    );

  it('answers with the newest of the topic, 200 unless less is asked for', async () => {
    const asked: DeadLetterAsk[] = [];
    const answer = await fakeControls().deadLetterTopic.newest({ limit: 1 });
    const port = await withTopic({
      newest: async (of) => {
        asked.push(of);
        return answer ?? assert.fail();
      },
    });
    const { status, body } = await ask(port, `${path}?source=topic`);
    assert.deepEqual([status, JSON.parse(body)], [200, answer]);
    await ask(
      port,
      `${path}?source=topic&type=A&type=B&reason=C&topic=d&since=2026-03-04T10:00:00Z&until=2026-03-05&limit=5`,
    );
    const nothing = {
      types: undefined,
      reasons: undefined,
      topics: undefined,
      since: undefined,
      until: undefined,
    };
    assert.deepEqual(asked, [
      { ...nothing, limit: 200 },
      {
        ...{ types: ['A', 'B'], reasons: ['C'], topics: ['d'], limit: 5 },
        ...{ since: Date.parse('2026-03-04T10:00:00Z'), until: Date.parse('2026-03-05') },
      },
    ]);
  });

  it('reads nothing where the question is wrong, and names the field', async () => {
    const port = await withTopic(never);
    for (const [query, field] of [
      ['source=process', 'source'],
      ['source=topic&source=topic', 'source'],
      ['type=A', 'source'],
      ['source=topic&limit=0', 'limit'],
      ['source=topic&limit=201', 'limit'],
      ['source=topic&limit=1.5', 'limit'],
      ['source=topic&limit=5&limit=6', 'limit'],
      ['source=topic&type=', 'type'],
      [`source=topic${'&type=A'.repeat(101)}`, 'type'],
      ['source=topic&since=tomorrow', 'since'],
      ['source=topic&since=2999-01-01', 'since'],
      ['source=topic&since=2026-01-01&since=2026-01-02', 'since'],
      ['source=topic&since=2026-01-02&until=2026-01-01', 'since'],
      ['source=topic&until=soon', 'until'],
      ['source=topic&tpye=A', undefined],
      ['source=topic&__proto__=A', undefined],
    ] as const) {
      const { status, body } = await ask(port, `${path}?${query}`);
      assert.deepEqual([status, JSON.parse(body).field], [400, field], query);
      assert.ok(!body.includes('tomorrow') && !body.includes('tpye'), body);
    }
    for (const limit of [1, 200])
      assert.equal((await ask(await withTopic({}), `${path}?source=topic&limit=${limit}`)).status, 200);
  });

  it('says where there is no topic, who else is reading it, and that the broker does not answer', async () => {
    const problem = async (topic: Partial<Controls['deadLetterTopic']>) => {
      const { status, headers, body } = await ask(await withTopic(topic), `${path}?source=topic`);
      return [status, headers['retry-after'], JSON.parse(body).detail];
    };
    assert.deepEqual(await problem({ missing: () => 'There is none.' }), [404, undefined, 'There is none.']);
    assert.deepEqual(await problem({ newest: () => undefined }), [
      409,
      '5',
      'Another request is reading it.',
    ]);
    const hangs = () => Promise.reject(new SvcError('SVC_ADAPTERS_NOT_REACHABLE', 'it hangs'));
    assert.deepEqual(await problem({ newest: hangs }), [
      ...[503, undefined, 'The dead letter topic cannot be read: it hangs'],
    ]);
    const [status] = await problem({ newest: () => Promise.reject(new Error('a bug')) });
    assert.equal(status, 500);
  });

  it('is for those who may read, from no other site, and where it is exposed', async () => {
    const token = 'a-token-of-some-length';
    const port = await withTopic(never, { token, address: '0.0.0.0' });
    const status = async (headers: Record<string, string>, of = port) =>
      (await ask(of, `${path}?source=topic`, { headers })).status;
    assert.equal(await status({}), 401);
    assert.equal(await status({ authorization: 'Bearer wrong' }), 401);
    const local = await withTopic(never);
    assert.equal(await status({ origin: 'https://evil.example' }, local), 403);
    assert.equal(await status({ host: 'evil.example' }, local), 421);
    assert.equal(await status({}, await withTopic(never, { exposure: ['health'] })), 404);
    const open = await withTopic({}, { token, address: '0.0.0.0' });
    assert.equal(await status({ authorization: `Bearer ${token}` }, open), 200);
  });
});
