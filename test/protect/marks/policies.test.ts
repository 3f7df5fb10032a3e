import assert from 'node:assert/strict';
import type { Envelope } from '../../../src/envelope/envelope.ts';
import type { PathRule } from '../../../src/ground/pii-rule.ts';
import { createPolicies } from '../../../src/protect/marks/policy.ts';
import { createProtector } from '../../../src/protect/protect.ts';
import { testSealer } from '../protecting.ts';

const enoughEvents = { ofType: 1_000, ofAll: 10_000 };

const rule = (path: string): PathRule => ({ path, type: 'CUSTOM', strategy: 'MASK', level: 'STRONG' });

function publishing(
  policies: ReturnType<typeof createPolicies>,
): (payload: unknown, eventType?: string) => void {
  const protect = createProtector({ policyOf: policies.policyOf, sealer: testSealer });
  return (payload, eventType = 'E') => void protect({ template: { eventType }, payload } as Envelope);
}

describe('rules that meet nothing', () => {
  const met: readonly (readonly [path: string, payload: unknown])[] = [
    ['a', { a: 1 }],
    ['a', { a: null }],
    ['a.b', { a: { b: 'x' } }],
    ['a.b', { a: [{}, { b: 'x' }] }],
    ['a[*].b', { a: [{ b: 'x' }] }],
    ['a.*', { a: { any: 'x' } }],
    ['**.b', { a: [{ deep: new Map([['b', 1]]) }] }],
    ['a["b.c"]', { a: { 'b.c': 1 } }],
    ['value', 'a text'],
    ['', { a: 1 }],
    ['a', { toJSON: () => ({ a: 1 }) }],
  ];
  for (const [path, payload] of met) {
    it(`"${path}" meets ${JSON.stringify(payload)}`, () => {
      const policies = createPolicies({ general: [rule(path)] });
      publishing(policies)(payload);
      assert.deepEqual(policies.unmet(), []);
    });
  }

  const unmet: readonly (readonly [path: string, payload: unknown])[] = [
    ['a', {}],
    ['a', { b: { a: 1 } }],
    ['a.b', { a: { c: 1 }, b: 1 }],
    ['a.b', { a: 'x' }],
    ['**.b', { a: [{ c: 1 }] }],
    ['A', { a: 1 }],
    ['a.b.c', { a: { b: {} } }],
  ];
  for (const [path, payload] of unmet) {
    it(`"${path}" does not meet ${JSON.stringify(payload)}`, () => {
      const policies = createPolicies({ general: [rule(path)] });
      assert.deepEqual(policies.unmet(), []);
      publishing(policies)(payload);
      assert.deepEqual(policies.unmet(), [{ path, owner: 'svc.pii.fields', events: 1 }]);
    });
  }

  it('are told of once each, those of a target after 1,000 of its events, the others after 10,000 of any', () => {
    const told: string[] = [];
    const policies = createPolicies({
      general: [rule('general'), rule('x')],
      onUnmet: ({ path, owner, events }) => told.push(`${path} ${owner} ${events}`),
    });
    policies.add('OWN', [rule('own')], 'a target');
    policies.add('OWN', [rule('other'), rule('y')], 'another target');
    const publish = publishing(policies);
    for (let event = 0; event < enoughEvents.ofType - 1; event++) publish({ x: 1, y: 1 }, 'OWN');
    assert.deepEqual(told, []);
    publish({}, 'OWN');
    const own = ['own a target 1000', 'other another target 1000'];
    assert.deepEqual(told, own);
    for (let event = enoughEvents.ofType; event < enoughEvents.ofAll - 1; event++) publish({}, 'E');
    assert.deepEqual(told, own);
    publish({}, 'E');
    publish({}, 'E');
    assert.deepEqual(told, [...own, 'general svc.pii.fields 10000']);
    assert.deepEqual(policies.unmet(), []);
  });

  it('count as met wherever they were met: in any event type, and before more rules came', () => {
    const policies = createPolicies({ general: [rule('a')] });
    policies.add('OWN', [rule('b')], 't');
    const publish = publishing(policies);
    publish({ a: 1, b: 1 }, 'OWN');
    policies.add('OWN', [rule('c')], 't');
    publish({}, 'OWN');
    publish({}, 'E');
    assert.deepEqual(
      policies.unmet().map(({ path }) => path),
      ['c'],
    );
  });
});
