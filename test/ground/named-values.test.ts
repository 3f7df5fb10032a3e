import assert from 'node:assert/strict';
import { runWithContext, setContext } from '../../src/context/request.ts';
import { isNamedValues } from '../../src/ground/names.ts';
import { checkPublishOptions } from '../../src/publish/api/check-options.ts';

class Own {
  readonly tenant = 'acme';
}

const others: Readonly<Record<string, unknown>> = {
  'a list': [['tenant', 'acme']],
  'a set': new Set([['tenant', 'acme']]),
  'a weak map': new WeakMap(),
  'a date': new Date(),
  'a buffer': Buffer.from('tenant'),
  'parameters of a URL': new URLSearchParams({ tenant: 'acme' }),
  'a form': new FormData(),
  'a promise': Promise.resolve({ tenant: 'acme' }),
  'a generator': (function* () {
    yield ['tenant', 'acme'];
  })(),
  'an expression': /tenant/,
  'a boxed text': new String('tenant'),
  'a function': () => ({ tenant: 'acme' }),
  'a text': 'tenant',
};

const headersOf = (given: unknown) => checkPublishOptions({ headers: given }).headers?.();

describe('values by their names', () => {
  for (const [what, value] of Object.entries({
    'a plain object': { tenant: 'acme' },
    'an object without prototype': Object.assign(Object.create(null), { tenant: 'acme' }),
    'an instance': new Own(),
  })) {
    it(`are those of ${what}`, () => {
      assert.equal(isNamedValues(value), true);
      assert.deepEqual(headersOf(value), { tenant: 'acme' });
    });
  }

  it('are headers of a map, and of fetch', () => {
    assert.deepEqual(headersOf(new Map<string, unknown>([['tenant', 7]])), { tenant: '7' });
    assert.deepEqual(headersOf(new Headers({ Tenant: 'acme', b: 'c' })), { b: 'c', tenant: 'acme' });
    assert.throws(() => headersOf(new Map([[{}, 'acme']])), { code: 'SVC_PUBLISH_HEADERS' });
  });

  for (const [what, value] of Object.entries(others)) {
    it(`are not looked for in ${what}, and that is said`, () => {
      assert.equal(isNamedValues(value), false);
      assert.throws(() => headersOf(value), { code: 'SVC_PUBLISH_HEADERS' });
      assert.equal(checkPublishOptions(value).mistake?.code, 'SVC_PUBLISH_OPTIONS');
      assert.throws(() => setContext(value as object), { code: 'SVC_CONTEXT_VALUES' });
      assert.throws(() => runWithContext({ tags: value as never }, () => {}), { code: 'SVC_CONTEXT_VALUES' });
    });
  }

  it('of a context have the names that there are', () => {
    const message = 'setContext() or runWithContext(): unknown value user: did you mean userId?';
    assert.throws(() => setContext({ user: 'x' } as object), { code: 'SVC_CONTEXT_VALUES', message });
    assert.equal(
      runWithContext({ userId: 1, tags: { a: 'b' } }, () => 7),
      7,
    );
  });
});
