import assert from 'node:assert/strict';
import { useLogger } from '../../support/log.ts';
import { publisher } from '../protecting.ts';

function reportOf(payload: unknown, rules: unknown = []): string[] {
  const lines: string[] = [];
  useLogger({ warn: (line) => void lines.push(line) });
  const publish = publisher(rules, { detects: true });
  publish(payload);
  publish(payload);
  return lines;
}

describe('the report mode', () => {
  for (const [value, kind] of [
    ['jonathan@example.com', 'an e-mail address'],
    ['write to jonathan@example.com, please', 'an e-mail address'],
    ['+49 30 901820', 'a phone number'],
    ['+1 (555) 123-4567', 'a phone number'],
    ['010-1234-5678', 'a phone number'],
    ['555-123-4567', 'a phone number'],
    ['4111 1111 1111 1111', 'a card number'],
    [4111111111111111, 'a card number'],
    ['DE89 3704 0044 0532 0130 00', 'an IBAN'],
  ] as const) {
    it(`names the path of ${value}, once and without the value`, () => {
      const payload = { customer: { items: [{ field: value }, { field: value }] } };
      assert.deepEqual(reportOf(payload), [
        `personal data? customer.items[*].field of E looks like ${kind} but is not marked`,
      ]);
    });
  }

  for (const value of [
    '2026-03-04',
    '2026-03-04T10:00:00.120Z',
    '1772618400120',
    1772618400120,
    '4111 1111 1111 1112',
    'DE89 3704 0044 0532 0130 01',
    'ord-20260304-000017',
    '192.168.1.1',
    '1.2.3',
    '10115',
    'a@b',
    '@types/node',
    '550e8400-e29b-41d4-a716-446655440000',
    281474976710656,
    '',
    true,
    null,
  ]) {
    it(`says nothing of ${value}`, () => assert.deepEqual(reportOf({ field: value }), []));
  }

  it('names no key of a map, and no key that stands in the value', () => {
    const people = { alice: { mail: 'a.b@example.com' } };
    const said = 'looks like an e-mail address but is not marked';
    assert.deepEqual(reportOf({ users: new Map(Object.entries(people)) }), [
      `personal data? users.*.mail of E ${said}`,
    ]);
    assert.deepEqual(
      reportOf({ users: [{ wrap: new Map([['alice', new Map([['m', 'x@example.com']])]]) }] }),
      [`personal data? users[*].wrap.*.* of E ${said}`],
    );
    assert.deepEqual(
      reportOf({ users: { alice: { mail: 'Alice.B@example.com' } }, next: { a: 'c@example.com' } }),
      [`personal data? users.*.mail of E ${said}`, `personal data? next.a of E ${said}`],
    );
  });

  it('names no key that is personal data in Base64, in hexadecimal or in a URL', () => {
    const mail = 'alice@example.com';
    const said = 'looks like an e-mail address but is not marked';
    const keys = {
      base64: Buffer.from(mail).toString('base64url'),
      'base64 of more': Buffer.from(`user:${mail}`).toString('base64url'),
      hex: `x${Buffer.from(mail).toString('hex')}`,
      url: encodeURIComponent(mail),
    };
    for (const [what, key] of Object.entries(keys)) {
      const lines = reportOf({ users: { [key]: { mail } } });
      assert.deepEqual(lines, [`personal data? users.*.mail of E ${said}`], what);
      assert.deepEqual(
        reportOf({ users: { [key]: 'x' } }),
        ['personal data? users.* of E has keys that look like an e-mail address; keys are never protected'],
        what,
      );
    }
    assert.deepEqual(reportOf({ deliveryAddressOfOrder: { customerMail1: mail } }), [
      `personal data? deliveryAddressOfOrder.customerMail1 of E ${said}`,
    ]);
  });

  it('says nothing of what is marked', () => {
    assert.deepEqual(reportOf({ email: 'a.b@example.com' }, ['email']), []);
    assert.deepEqual(reportOf({ email: 'a.b@example.com' }, [{ path: 'email', strategy: 'EXCLUDE' }]), []);
  });

  it('names a payload that is no object, and instances of classes', () => {
    class User {
      mail = 'a.b@example.com';
    }
    const says = 'of E looks like an e-mail address but is not marked';
    assert.deepEqual(reportOf('a.b@example.com'), [`personal data? value ${says}`]);
    assert.deepEqual(reportOf({ user: new User() }), [`personal data? user.mail ${says}`]);
  });

  it('shows no key that may be personal data itself, and says that it is one', () => {
    const lines = reportOf({ byMail: { 'a.b@example.com': { n: 'a.c@example.com' }, 'x@example.com': 'y' } });
    assert.deepEqual(lines, [
      'personal data? byMail.*.n of E looks like an e-mail address but is not marked',
      'personal data? byMail.* of E has keys that look like an e-mail address; keys are never protected',
    ]);
  });

  it('is bounded', () => {
    const paths = Object.fromEntries(
      Array.from({ length: 1200 }, (_, index) => [`f${index}`, 'a.b@example.com']),
    );
    const lines = reportOf(paths);
    assert.equal(lines.length, 1001);
    assert.equal(lines.at(-1), 'personal data? 1000 paths reported; svc stops here');
  });
});
