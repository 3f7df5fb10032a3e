import assert from 'node:assert/strict';
import { InstrumentationBase, isWrapped } from '@opentelemetry/instrumentation';
import { patchMethod, withoutWrappers } from '../../src/transaction/patch-method.ts';

type Query = (text: string) => string;

/** As the instrumentations of drivers do it: `calls` is how often one call was seen. */
class Watching extends InstrumentationBase {
  calls = 0;
  constructor() {
    super('watching', '1.0.0', { enabled: false });
  }
  protected init(): [] {
    return [];
  }
  /** For each file of a package, in each module system. */
  patch(prototype: { query: Query }): void {
    if (isWrapped(prototype.query)) this.unpatch(prototype);
    const count = (): void => void this.calls++;
    this._wrap(prototype, 'query', (original) => {
      return function (this: object, text: string): string {
        count();
        return original.call(this, text);
      };
    });
  }
  unpatch(prototype: { query: Query }): void {
    this._unwrap(prototype, 'query');
  }
}

function patched(prototype: { query: Query }): void {
  patchMethod(prototype, 'query', (behind) => {
    return function (this: object, text: string): string {
      return `svc ${behind().call(this, text)}`;
    };
  });
}

describe('a method that instrumentations wrap as well', () => {
  const base: Query = (text) => `asked ${text}`;
  let prototype: { query: Query };
  let watching: Watching;
  beforeEach(() => {
    prototype = { query: base };
    watching = new Watching();
  });

  for (const [order, steps] of Object.entries({
    'before it and behind it': ['watch', 'svc', 'watch'],
    'twice behind it': ['svc', 'watch', 'watch'],
    'twice before it': ['watch', 'watch', 'svc'],
    'before it, and twice behind it': ['watch', 'svc', 'watch', 'watch'],
  })) {
    it(`is seen once where they do so ${order}, and not at all when they leave`, () => {
      for (const step of steps) step === 'svc' ? patched(prototype) : watching.patch(prototype);
      assert.equal(prototype.query('1'), 'svc asked 1');
      assert.equal(watching.calls, 1);
      watching.unpatch(prototype);
      assert.equal(isWrapped(prototype.query), false);
      assert.equal(prototype.query('2'), 'svc asked 2');
      assert.equal(watching.calls, 1);
    });
  }

  it('keeps its name and length, which others may define anew, as those of any function', () => {
    patched(prototype);
    assert.deepEqual([prototype.query.name, prototype.query.length], ['base', 1]);
    Object.defineProperties(prototype.query, { name: { value: 'theirs' }, length: { value: 2 } });
    assert.deepEqual([prototype.query.name, prototype.query.length], ['theirs', 2]);
  });

  it('is not taken for wrapped where a part of the mark is missing', () => {
    const mark = { __wrapped: true, __original: base, __unwrap() {} };
    for (const part of Object.keys(mark)) {
      const own: Query = Object.assign((text: string) => `own ${text}`, mark, { [part]: undefined });
      assert.equal(withoutWrappers(own), own, part);
    }
  });

  it('is there without them, for what svc does itself', () => {
    watching.patch(prototype);
    const wrapped = prototype.query;
    assert.equal(withoutWrappers(wrapped), base);
    patched(prototype);
    assert.equal(withoutWrappers(prototype.query), base);
    assert.equal(withoutWrappers(base), base);
  });
});
