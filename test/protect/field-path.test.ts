import assert from 'node:assert/strict';
import { elementPath, memberPath } from '../../src/protect/own-text.ts';

describe('path of a field', () => {
  // Ciphertexts are bound to it: another one opens none that was ever published.
  it('is that of format v1', () => {
    assert.equal(memberPath('', 'customer'), 'customer');
    assert.equal(memberPath('customer', 'e-mail_1$'), 'customer.e-mail_1$');
    assert.equal(memberPath(elementPath(memberPath('', 'items')), 'phone'), 'items[*].phone');
    assert.equal(memberPath('rates', 'a.b'), 'rates["a.b"]');
    assert.equal(memberPath('', ''), '[""]');
    assert.equal(memberPath('', 'ä"'), '["ä\\""]');
  });
});
