import assert from 'node:assert/strict';
import { planOfDeclaration } from '../../../src/capture/declare/make-plan.ts';
import type { Selector } from '../../../src/capture/expression/compile.ts';
import { ownFailures } from '../../../src/capture/wrap/wrap.ts';
import type { Config } from '../../../src/config/config.ts';
import { loadConfig } from '../../../src/config/read/load.ts';
import { SvcError } from '../../../src/ground/errors.ts';
import { type PlanFields, planOf as planOfFields } from '../plan-of.ts';

const planOf = (fields: PlanFields) => planOfFields(fields, ['order', 'options']);
const outbox = { aggregateType: 'Order', aggregateId: '#order.id' };
const callWith = (id: unknown) => ({ args: [{ id }], result: { id }, self: undefined });

describe('the plan of a target with an outbox', () => {
  it('has its aggregate, and lets the call fail', () => {
    const plan = planOf({ outbox: { ...outbox, result: 'transaction' }, failOnError: false });
    assert.deepEqual(
      [plan.outbox?.aggregateType, plan.outbox?.result, plan.failOnError, plan.afterCommit],
      ['Order', 'transaction', true, false],
    );
    assert.equal(plan.outbox?.aggregateId(callWith('o-7')), 'o-7');
    const none = planOf({ afterCommit: true });
    assert.deepEqual(
      [none.outbox, none.key, none.failOnError, none.afterCommit],
      [undefined, undefined, false, true],
    );
  });

  it('takes the aggregate id for the record key where none is declared', () => {
    assert.equal(planOf({ outbox }).key?.(callWith(7)), '7');
    assert.equal(planOf({ outbox, key: "'k'" }).key?.(callWith(7)), 'k');
  });

  for (const [id, text] of [
    ['o-7', 'o-7'],
    [' ', ' '],
    [0, '0'],
    [12n, '12'],
    [false, 'false'],
    [`${'é'.repeat(32_767)}a`, `${'é'.repeat(32_767)}a`],
  ] as const)
    it(`${typeof id} ${String(id).slice(0, 10)} is an aggregate id`, () => {
      assert.equal(planOf({ outbox }).outbox?.aggregateId(callWith(id)), text);
    });

  for (const [id, found] of [
    [null, 'null'],
    [undefined, 'undefined'],
    ['', 'an empty text'],
    [`${'é'.repeat(32_767)}ab`, 'more than 65535 bytes'],
    [{}, 'an object'],
    [Number.NaN, 'no number'],
  ] as const)
    it(`${found} is none`, () => {
      const says = 'the id of an aggregate is a non-empty string, a number or a boolean.';
      assert.throws(() => planOf({ outbox }).outbox?.aggregateId(callWith(id)), {
        code: 'SVC_OUTBOX_AGGREGATE_ID',
        message: `The aggregateId expression "#order.id" gave ${found}; ${says}`,
      });
      const aggregateId = ({ result }: { result: unknown }) => (result as { id: unknown }).id;
      assert.throws(() => planOf({ outbox: { ...outbox, aggregateId } }).outbox?.aggregateId(callWith(id)), {
        code: 'SVC_OUTBOX_AGGREGATE_ID',
        message: `The aggregateId function gave ${found}; ${says}`,
      });
    });

  it('what fails, or gives a promise, fails as any expression', () => {
    const of = (aggregateId: string | (() => unknown)) => () =>
      planOf({ outbox: { ...outbox, aggregateId } }).outbox?.aggregateId(callWith(7));
    assert.throws(of('#order.a.b'), { code: 'SVC_CAPTURE_EXPRESSION' });
    assert.throws(
      of(() => {
        throw new Error('x');
      }),
      { code: 'SVC_CAPTURE_EXPRESSION' },
    );
    assert.throws(
      of(() => Promise.resolve(7)),
      { code: 'SVC_CAPTURE_EXPRESSION_ASYNC' },
    );
    assert.throws(of('#ordr.id'), { code: 'SVC_CAPTURE_EXPRESSION_NAME' });
    assert.throws(of('#order.'), { code: 'SVC_CAPTURE_EXPRESSION_SYNTAX' });
  });

  const args = { payload: '#order' };
  const swallowing: Selector = (call) => {
    try {
      return String(call.result);
    } catch {
      return 'none';
    }
  };
  const cases: [needsResult: boolean, what: string, fields: PlanFields][] = [
    [true, 'the payload is the return value', {}],
    [true, 'the payload is the return value, by its position', { payloadIndex: -1 }],
    [false, 'the payload is an argument, by its position', { payloadIndex: 0 }],
    [
      false,
      'nothing names it',
      { ...args, key: '#order.id', when: '#order.ok', headers: { a: '#options.a' } },
    ],
    [false, 'a property or a text is called so', { payload: "{a: #order.result, result: '#result'}" }],
    [true, 'the payload names it', { payload: '{id: #result.id, order: #order}' }],
    [true, 'the payload names it, without the sign', { payload: 'result' }],
    [true, 'the payload names it deep inside', { payload: '#order.items.![#result?.id ?: #this]' }],
    [true, 'the key names it', { ...args, key: '#result.id' }],
    [true, 'when names it', { ...args, when: '#result != null' }],
    [true, 'a header names it', { ...args, headers: { a: '#order.a', b: '#result.b' } }],
    [true, 'the aggregate id names it', { ...args, outbox: { ...outbox, aggregateId: '#result.id' } }],
    [false, 'only the other way of an expression names it', { payload: '#order.ok ? #order.id : #result' }],
    [false, 'a function does not look at it', { payload: (call) => ({ id: call.args[0] }) }],
    [true, 'a function does', { payload: ({ result }) => ({ result }) }],
    [true, 'a function does, and has an answer where it is not there', { payload: swallowing }],
    [
      false,
      'a function for the aggregate id does not',
      { ...args, outbox: { ...outbox, aggregateId: () => 1 } },
    ],
    [
      true,
      'a function for the aggregate id does',
      { ...args, outbox: { ...outbox, aggregateId: swallowing } },
    ],
  ];
  for (const [needsResult, what, fields] of cases)
    it(`${needsResult ? 'needs' : 'does not need'} the result where ${what}`, () => {
      const { when, payload, key, headers, outbox: own } = planOf({ outbox, ...fields });
      const call = {
        args: [{ id: 7, ok: true, a: 1, result: 1, items: [{ id: 1 }] }, { a: '1' }],
        self: undefined,
        get result(): unknown {
          const failure = new SvcError('SVC_CAPTURE_RESULT_UNKNOWN', 'not known yet');
          ownFailures.add(failure);
          throw failure;
        },
      };
      const makeAll = () => [when, payload, key, headers, own?.aggregateId].map((make) => make?.(call));
      if (needsResult) assert.throws(makeAll, { code: 'SVC_CAPTURE_RESULT_UNKNOWN' });
      else makeAll();
    });
});

describe('an outbox in code', () => {
  const { config } = loadConfig({ cwd: import.meta.dirname, env: {}, code: {} });
  const on = { outbox: { ...config.outbox, enabled: true } };
  const planFor = (options: object, given: Pick<Config, 'outbox'>) =>
    planOfDeclaration({ origin: 'publishEvent', name: 'create', options, parameterNames: ['order'] }, given);
  const refused = (fields: object, message: string, given = on) =>
    assert.throws(
      () => planFor(fields, given),
      (error) => {
        assert.ok(error instanceof SvcError);
        assert.deepEqual([error.code, error.message], ['SVC_CAPTURE_RULE', message]);
        return true;
      },
    );

  it('is taken', () => {
    const plan = planFor({ outbox, eventType: 'T' }, on);
    assert.deepEqual(
      [plan.eventType, plan.outbox?.aggregateType, plan.outbox?.aggregateId(callWith(7))],
      ['T', 'Order', '7'],
    );
    const none = planFor({ afterCommit: true }, config);
    assert.deepEqual([none.outbox, none.afterCommit], [undefined, true]);
  });

  it('is refused as in the configuration', () => {
    const off = 'outbox needs svc.outbox.enabled: true: a direct send would not be part of the transaction';
    refused({ outbox }, off, config);
    refused({ outbox: {} }, 'outbox aggregateType is required; outbox aggregateId is required');
    refused({ outbox: null }, 'outbox must be an object');
    refused(
      { outbox, failOnError: false },
      'failOnError false cannot be combined with outbox: an event that is not stored fails its transaction',
    );
    refused(
      { outbox, phase: 'AFTER', afterCommit: true },
      'phase AFTER cannot be combined with outbox: an event of a transaction reports a call that succeeded; afterCommit cannot be combined with outbox, whose events are always sent after the commit',
    );
  });
});
