import assert from 'node:assert/strict';
import type { Call } from '../../src/capture/call.ts';
import { planOfTarget } from '../../src/capture/declare/make-plan.ts';
import { loadConfig } from '../../src/config/read/load.ts';
import type { ErrorCode } from '../../src/ground/errors.ts';
import type { createOutboxJoin } from '../../src/outbox/join.ts';
import { PiiField } from '../../src/protect/marks/policy.ts';
import type { Protect, ProtectedEnvelope } from '../../src/protect/protect.ts';
import { forgetMarks } from '../protect/forget-marks.ts';
import { pipelineWith, settleAll } from './pipeline-under-test.ts';

class Guest {
  email = 'jane.doe@example.com';
  floor = 3;
  id = 17;
  getEmail() {
    return this.email;
  }
}
class Vip extends Guest {}

/** Leaves the payload as it is, so that only the expressions decide. */
const unchecked: Protect = (envelope) => ({ ...envelope, sealed: [] }) as unknown as ProtectedEnvelope;

const target = { module: './rooms.ts', function: 'book' };
const toConfig = (fields: object, pii: object = {}) =>
  loadConfig({
    env: {},
    code: {
      svc: {
        broker: { topic: 't' },
        pii,
        outbox: { enabled: true, datasource: { url: 'sqlite:./a.db' } },
        targets: [{ ...target, ...fields }],
      },
    },
  }).config;

describe('what an expression of a text that goes out in clear may read', () => {
  before(() => {
    PiiField('EMAIL')(Guest.prototype, 'email');
    PiiField('CUSTOM')(Guest.prototype, 'floor');
  });
  after(forgetMarks);

  afterEach(settleAll);

  /** Calls a target, and returns how many events it made. */
  function publish(fields: object, usesMarks = true): number {
    const config = toConfig(fields);
    const [only] = config.targets;
    assert.ok(only !== undefined);
    const plan = { ...planOfTarget(only, ['guest'], config), failOnError: true };
    const result = new Vip();
    const call: Call = {
      ...{
        plan,
        self: null,
        args: [result],
        result: { guests: [result], byName: new Map([['jane', result]]) },
      },
      ...{ error: undefined, canWait: false },
    };
    let rows = 0;
    const outbox: ReturnType<typeof createOutboxJoin> = {
      store() {
        rows++;
        return { written: undefined, outcome: Promise.resolve('outbox') };
      },
      ...{ refuse() {}, storesAlone: false, pending: () => 0 },
    };
    const { onCall, taken } = pipelineWith({ usesMarks, outbox, protect: unchecked });
    onCall(call);
    return taken.length + rows;
  }

  for (const expression of [
    "#guest.email.split('@')[0]",
    '#guest.floor',
    "#guest['floor']",
    "#guest?.['fl' + 'oor']",
    '#result.guests.![floor].size()',
    "#result.byName['jane'].floor",
    "#guest.floor == null ? 'a' : 'b'",
  ])
    it(`not what the class of the object marks: ${expression}`, () => {
      const refused = (fields: object, code: ErrorCode) => assert.throws(() => publish(fields), { code });
      refused({ key: expression }, 'SVC_PROTECT_KEY_IN_CLEAR');
      const outbox = { aggregateType: 'Room', aggregateId: expression };
      refused({ outbox }, 'SVC_PROTECT_KEY_IN_CLEAR');
      refused({ key: '#guest.id', outbox }, 'SVC_PROTECT_KEY_IN_CLEAR');
      refused({ headers: { by: expression } }, 'SVC_PROTECT_HEADER_IN_CLEAR');
      assert.equal(publish({ key: expression }, false), 1);
      assert.equal(publish({ outbox }, false), 1);
      assert.equal(publish({ payload: expression, key: '#guest.id', when: expression }), 1);
    });

  it('nothing of the value is in the error', () => {
    assert.throws(
      () => publish({ key: '#guest.email' }),
      ({ message }: Error) => {
        assert.match(
          message,
          /its class marks this field as personal data, but this value is published in clear/,
        );
        return !message.includes('jane');
      },
    );
  });

  it('not a path that a rule marks, once the names of the parameters are known', () => {
    const config = toConfig({ key: '#room.floor', payloadIndex: 1 }, { fields: ['floor'] });
    const [only] = config.targets;
    assert.ok(only !== undefined);
    assert.throws(() => planOfTarget(only, ['guest', 'room'], config), {
      code: 'SVC_PROTECT_RULE',
      message: 'key shows in clear what the rule for floor protects (MASK): "#room.floor". Use another field',
    });
    assert.doesNotThrow(() => planOfTarget(only, ['room', 'guest'], config));
    assert.doesNotThrow(() => planOfTarget(only, ['guest', 'room'], toConfig({}, { enabled: false })));
  });

  it('is the name of a header as well, where it is none as they usually are', () => {
    const seen: (readonly string[] | undefined)[] = [];
    const protect: Protect = (envelope, clearTexts) => {
      seen.push(clearTexts?.map(({ text }) => text));
      return unchecked(envelope);
    };
    const { producer } = pipelineWith({ asyncMode: true, protect });
    void producer.publish({}, { headers: { 'x-tenant': 'a', 'jane.doe@example.com': '1' } });
    assert.deepEqual(seen, [['a', '1', 'jane.doe@example.com']]);
  });
});
