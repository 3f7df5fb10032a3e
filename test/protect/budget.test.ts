import assert from 'node:assert/strict';
import { maxBigIntBits } from '../../src/ground/bounds.ts';
import { PiiField } from '../../src/protect/marks/policy.ts';
import { registerMasker } from '../../src/protect/mask.ts';
import { useClock } from '../support/fake-time.ts';
import { publishes, refuses } from './protecting.ts';

const maxTimeMs = 2_000;
const maxRawBytes = 16_777_216;
const maxText = { before: 4_194_304, after: 8_388_608 };
const maxSealed = 10_000;
const maxNodes = 100_000;

const over = 'SVC_PROTECT_BUDGET';

/** The clock goes on by so much each time it is asked. */
function goOnBy(stepMs: number): void {
  let now = 0;
  useClock({
    monotonic: () => {
      now += stepMs;
      return now;
    },
  });
}

describe('what one event may cost', () => {
  const numbers = (count: number) => ({ items: Array.from({ length: count }, (_, index) => index % 100) });

  for (const strategy of ['HASH', 'ENCRYPT']) {
    it(`${maxSealed} values by ${strategy}, one more is refused`, () => {
      const rules = [{ path: 'items', type: 'CUSTOM', strategy }];
      assert.doesNotThrow(() => publishes(numbers(maxSealed), rules));
      refuses(numbers(maxSealed + 1), over, rules);
      for (const count of [49_000, 99_000]) refuses(numbers(count), over, rules);
    });
  }

  it('as many masked values as a payload may hold', () => {
    const { items } = publishes(numbers(maxNodes - 1), ['items=CUSTOM']) as { items: string[] };
    assert.deepEqual([items.length, items[98_765]], [maxNodes - 1, '****']);
  });

  it('a limited length of protected text', () => {
    const text = 'x'.repeat(maxText.before);
    for (const strategy of ['MASK', 'HASH', 'ENCRYPT']) {
      const rules = [{ path: 'a', type: 'CUSTOM', strategy }];
      assert.doesNotThrow(() => publishes({ a: text, b: 'not protected' }, rules));
      refuses({ a: [text, 'x'] }, over, rules);
      refuses({ a: `${text}x` }, over, rules);
    }
    const exclude = [{ path: 'a', strategy: 'EXCLUDE' }];
    assert.deepEqual(publishes({ a: [text, text] }, exclude), {});
  });

  it('a limited length of ciphertext', () => {
    const rules = ['a=CUSTOM:ENCRYPT'];
    // Three bytes of UTF-8 a character, four characters of Base64, and 12 + 16 bytes beside them.
    const fits = (maxText.after - 'ENC()'.length) / 4 - 10;
    const length = Math.floor(fits);
    const sealer = (size: number) => ({
      sealer: { encrypt: () => 'x'.repeat(size), hash: () => 'x' },
    });
    assert.ok(length < maxText.before);
    assert.doesNotThrow(() => publishes({ a: '한'.repeat(length) }, rules));
    assert.doesNotThrow(() => publishes({ a: 'text' }, rules, sealer(maxText.after)));
    refuses({ a: 'text' }, over, rules, sealer(maxText.after + 1));
    refuses({ a: '한'.repeat(maxText.before) }, over, rules);
  });

  it('a limited number of raw bytes, published as Base64', () => {
    const half = new Uint8Array(maxRawBytes / 2);
    assert.doesNotThrow(() => publishes({ a: half, b: half.buffer }));
    refuses({ a: half, b: half, c: new Uint8Array(1) }, 'SVC_PROTECT_TOO_LARGE');
  });

  it('a BigInt whose text is quickly written', () => {
    const first = 1n << BigInt(maxBigIntBits);
    for (const rules of [[], ['a=CUSTOM']]) {
      assert.doesNotThrow(() => publishes({ a: first - 1n, b: 1n - first, c: Object(first - 1n) }, rules));
      for (const a of [first, -first, Object(first), new Map([[first, 1]])])
        refuses({ a }, 'SVC_PROTECT_TOO_LARGE', rules);
    }
  });

  it('the time that it takes', () => {
    const rules = ['**.name=NAME'];
    const wide = Array.from({ length: 1_000 }, () => ({ name: 'Ada' }));
    const toJson = Array.from({ length: 10 }, () => ({ toJSON: () => ({ name: 'Ada' }) }));
    const flat = new Array(5_000).fill('Ada');
    for (const payload of [{ wide }, { toJson }, { flat }, new Map([['a', { flat }]])]) {
      goOnBy(maxTimeMs / 1_000);
      assert.doesNotThrow(() => publishes(payload, rules));
      goOnBy(maxTimeMs);
      refuses(payload, over, rules);
    }
    const looks = (stepMs: number) => () => {
      const twice = [{ toJSON: () => 1 }, { toJSON: () => 1 }];
      goOnBy(stepMs);
      return publishes(twice, []);
    };
    assert.doesNotThrow(looks(maxTimeMs));
    assert.throws(looks(maxTimeMs + 1), { code: over });
  });

  // Each reading of a text is decoded only while there is time.
  for (const [escaped, text] of [
    ['a URL', '%252525252525'],
    ['HTML', '&amp;amp;amp;amp;amp;'],
    ['JSON', '\\'.repeat(256)],
    ['several of them', '\\u0025&#x25;%25+\'\'""=3D 61 62 63 64 65'],
  ] as const)
    it(`the time that it takes to decode ${escaped}, in what toJSON returns and in a key`, () => {
      class Customer {
        name = 'Jane Doe';
        toJSON() {
          return { text };
        }
      }
      PiiField()(Customer.prototype, 'name');
      goOnBy(maxTimeMs / 2);
      refuses(new Customer(), over, []);
      refuses({ name: 'Jane Doe' }, over, ['name=NAME'], { key: text });
    });

  it('never a look at the clock for a small event', () => {
    assert.doesNotThrow(() => publishes({ list: new Array(100).fill({ a: 1 }) }, ['**.x']), 'of itself');
    useClock({
      monotonic: () => {
        throw new Error('asked for the time');
      },
    });
    assert.doesNotThrow(() => publishes({ list: new Array(40).fill({ a: 'x' }) }, ['**.a=CUSTOM']));
  });

  it('the time of a masker that the application registered', () => {
    let now = 0;
    registerMasker('slow', () => {
      now += 100;
      return '*';
    });
    const rules = [{ path: 'items', masker: 'slow' }];
    useClock({ monotonic: () => now });
    refuses(numbers(1_000), over, rules);
  });

  it('an object has as many keys as values may still be read, and not one more', () => {
    let reads = 0;
    const object = Object.defineProperty({ b: 2 }, 'a', { enumerable: true, get: () => ++reads });
    const behind = (values: number) => ({ list: new Array(values).fill(1), object });
    const published = publishes(behind(maxNodes - 2)) as { object: unknown };
    assert.deepEqual([published.object, reads], [{ b: 2, a: 1 }, 1]);
    refuses(behind(maxNodes - 1), 'SVC_PROTECT_TOO_LARGE');
    assert.equal(reads, 1, 'it is not read where it is refused');
  });

  it('objects of too many keys are not copied, and a proxy is not read to its end', () => {
    const keys = Array.from({ length: 300_000 }, (_, index) => `k${index}`);
    for (const rules of [[], ['**.x']]) {
      let reads = 0;
      const proxy = new Proxy(
        {},
        {
          ownKeys: () => keys,
          get: () => reads++,
          getOwnPropertyDescriptor: () => ({ value: 1, enumerable: true, configurable: true }),
        },
      );
      refuses({ proxy }, 'SVC_PROTECT_TOO_LARGE', rules);
      assert.ok(reads <= maxNodes + 10, String(reads));
      refuses({ large: Object.fromEntries(keys.map((key) => [key, 1])) }, 'SVC_PROTECT_TOO_LARGE', rules);
      refuses(
        { maps: new Array(10).fill(new Map(keys.slice(0, 60_000).map((key) => [key, 1]))) },
        'SVC_PROTECT_TOO_LARGE',
        rules,
      );
    }
  });

  it('the marked values of objects with toJSON count each time that they are read', () => {
    class Holder {
      values: unknown;
      constructor(values: unknown) {
        this.values = values;
      }
      toJSON() {
        return { id: 1 };
      }
    }
    PiiField()(Holder.prototype, 'values');
    const values = Array.from({ length: 5_000 }, (_, index) => `value ${index}`);
    assert.doesNotThrow(() => publishes(new Array(10).fill(new Holder(values))));
    refuses(new Array(30).fill(new Holder(values)), 'SVC_PROTECT_TOO_LARGE');
  });
});
