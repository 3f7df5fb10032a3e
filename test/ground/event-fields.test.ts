import assert from 'node:assert/strict';
import { loadConfig } from '../../src/config/read/load.ts';
import { SvcError } from '../../src/ground/errors.ts';
import { checkPublishOptions } from '../../src/publish/api/check-options.ts';
import { type PlanFields, planOf } from '../capture/plan-of.ts';
import { temporaryFolder } from '../support/folders.ts';

const call = { args: [{ tenant: 'acme' }], result: { id: 7n }, self: undefined };

const cwd = temporaryFolder('headers');
/** A target of the configuration, or what svc says is wrong with it. */
function targetWith(headers: unknown) {
  const code = {
    svc: { broker: { topic: 'orders' }, targets: [{ module: './a.js', function: 'a', headers }] },
  };
  const { config, problems, targetProblems } = loadConfig({ cwd, env: {}, code });
  assert.deepEqual(problems, []);
  const messages = targetProblems.flatMap((each) => each.problems).map(({ message }) => message);
  return { target: config.targets[0], messages };
}

type Headers = Record<string, unknown>;
/** The three ways in: what goes out, or the code of the refusal. */
const ways: Record<string, (headers: Headers) => unknown> = {
  'svc.targets': (headers) => {
    const { target, messages } = targetWith(headers);
    return target === undefined ? messages[0] : fromTarget(target.headers);
  },
  'a target in code': (headers) => fromTarget(headers as PlanFields['headers']),
};

function fromTarget(headers: PlanFields['headers']): unknown {
  try {
    return planOf({ headers }, ['order']).headers?.(call);
  } catch (error) {
    assert.ok(error instanceof SvcError);
    assert.doesNotMatch(error.message, /secret/);
    return error.code;
  }
}

function published(headers: unknown): unknown {
  try {
    return checkPublishOptions({ headers }).headers?.();
  } catch (error) {
    assert.ok(error instanceof SvcError);
    assert.doesNotMatch(error.message, /secret/);
    return error.code;
  }
}

const many = (count: number, value: unknown) =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`h${index}`, value]));

describe('headers', () => {
  for (const [name, out] of Object.entries(ways)) {
    it(`of ${name}: expressions and functions, as texts; null and undefined are left out`, () => {
      const headers = {
        tenant: '#order.tenant',
        id: '#result.id',
        paid: 'false',
        nothing: '#order.nothing',
        'X-Region': () => 'eu',
        none: () => null,
      };
      assert.deepEqual(out(headers), { tenant: 'acme', id: '7', paid: 'false', 'X-Region': 'eu' });
    });

    it(`of ${name}: the last names and values that are taken, and the first that are not`, () => {
      assert.deepEqual(out({ ['n'.repeat(128)]: "'x'" }), { ['n'.repeat(128)]: 'x' });
      assert.deepEqual(out({ x: () => 'v'.repeat(4096) }), { x: 'v'.repeat(4096) });
      assert.equal(Object.keys(out(many(32, "'x'")) as Headers).length, 32);
      const isRefused = (headers: Headers) =>
        assert.equal(typeof out(headers), 'string', JSON.stringify(headers));
      isRefused({ ['n'.repeat(129)]: "'x'" });
      isRefused({ x: () => `secret${'v'.repeat(4091)}` });
      isRefused(many(33, "'x'"));
      for (const wrong of [
        '',
        'a b',
        'ä',
        'a\n',
        'eventId',
        'EVENTID',
        'Content-Type',
        'traceparent',
        'originalTopic',
        'svc-replay',
      ])
        isRefused({ [wrong]: "'x'" });
      isRefused(JSON.parse('{"__proto__":"1"}'));
      for (const value of [() => ({ secret: 1 }), () => ['secret'], () => Number.NaN])
        isRefused({ x: value });
    });
  }

  it('of a target are said to be wrong at the start, all of them', () => {
    const wrongOnes = { eventId: '#result', tenant: 7, ok: '#result', none: null };
    assert.deepEqual(targetWith(wrongOnes).messages, [
      'header 1 has a name that svc itself sets',
      'header 2 must be an expression or a function',
      // YAML reads an expression without quotes as a comment: null is left.
      'header 4 must be an expression or a function',
    ]);
    assert.deepEqual(targetWith(many(33, "'x'")).messages, ['must hold at most 32 headers']);
    for (const wrong of ['x', 7, [], null]) assert.equal(targetWith(wrong).messages.length, 1);
  });

  it('of a target in code are an object', () => {
    for (const wrong of [7, '#result', ['#result']])
      assert.equal(fromTarget(wrong as unknown as PlanFields['headers']), 'SVC_CAPTURE_HEADERS');
  });

  it('of a target fail for a call as other expressions do', () => {
    assert.equal(fromTarget({ x: '#order.a.b' }), 'SVC_CAPTURE_EXPRESSION');
    assert.equal(fromTarget({ x: async () => 1 }), 'SVC_CAPTURE_EXPRESSION_ASYNC');
    assert.equal(fromTarget({ x: '#nothing' }), 'SVC_CAPTURE_EXPRESSION_NAME');
  });

  it('never write out a number so large that this blocks the process', () => {
    const endless = 1n << 30_000_000n;
    assert.equal(published({ x: endless }), 'SVC_PUBLISH_HEADERS');
    assert.equal(fromTarget({ x: () => endless }), 'SVC_CAPTURE_HEADERS');
  }).timeout(2_000);

  it('of publish(): the last that are taken, and the first that are not', () => {
    assert.deepEqual([published(undefined), published(null), published({})], [undefined, undefined, {}]);
    const given = { a: 'x', b: 7, c: 7n, d: false, e: null, f: undefined, g: '' };
    assert.deepEqual(published(given), { a: 'x', b: '7', c: '7', d: 'false', g: '' });
    assert.deepEqual(published({ x: 'v'.repeat(4096) }), { x: 'v'.repeat(4096) });
    assert.deepEqual(published(many(32, 1)), many(32, '1'));
    for (const wrong of [
      7,
      'x',
      [],
      many(33, 1),
      { x: 'secret'.repeat(700) },
      { x: { secret: 1 } },
      { x: () => 'secret' },
      { eventType: 'x' },
      { '': 'x' },
      JSON.parse('{"__proto__":"1"}'),
    ])
      assert.equal(published(wrong), 'SVC_PUBLISH_HEADERS', JSON.stringify(wrong));
  });
});
