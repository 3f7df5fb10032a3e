import assert from 'node:assert/strict';
import { declaredRules } from '../../../src/capture/declare/make-plan.ts';
import { loadConfig } from '../../../src/config/read/load.ts';
import { SvcError } from '../../../src/ground/errors.ts';

describe('rules for personal data of a target in code', () => {
  it('are taken, or it is said why not', () => {
    const { config } = loadConfig({
      env: {},
      code: { svc: { broker: { topic: 't' }, pii: { fields: ['email'] } } },
    });
    assert.equal(declaredRules({ pii: { type: 'EMAIL' } }, config)[0]?.path, '');
    assert.deepEqual(declaredRules({}, config), []);
    const refused = (fields: object) => {
      try {
        declaredRules(fields, config);
      } catch (error) {
        return error instanceof SvcError ? `${error.code}: ${error.message}` : 'other';
      }
      return 'none';
    };
    assert.match(refused({ pii: ['a..b'] }), /^SVC_PROTECT_RULE: pii has a path that must be/);
    assert.match(refused({ key: '#result.email' }), /^SVC_PROTECT_RULE: key shows in clear/);
    assert.match(
      refused({ headers: { by: '#result.email' } }),
      /^SVC_PROTECT_RULE: headers.by shows in clear/,
    );
    const ofOrder = { key: '#order.email', payloadIndex: 1 };
    assert.match(
      refused({ ...ofOrder, params: ['by', 'order'] }),
      /^SVC_PROTECT_RULE: key shows in clear what the rule for email protects \(MASK\): "#order\.email"\. Use another field$/,
    );
    assert.equal(refused({ ...ofOrder, params: ['order', 'by'] }), 'none');
  });

  it('are none where the protection is switched off', () => {
    const code = { svc: { broker: { topic: 't' }, pii: { enabled: false } } };
    const { config } = loadConfig({ env: {}, code });
    assert.deepEqual(declaredRules({ pii: ['a..b'] }, config), []);
  });
});
