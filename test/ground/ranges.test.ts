import assert from 'node:assert/strict';
import fc from 'fast-check';
import { createRanges } from '../../src/ground/bounds.ts';

describe('ranges', () => {
  it('hold what a set holds, as few ranges', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(60)), (numbers) => {
        const ranges = createRanges();
        const set = new Set(numbers);
        for (const number of numbers) ranges.add(number);
        for (let number = 0; number <= 61; number++) assert.equal(ranges.has(number), set.has(number));
        assert.equal(ranges.size(), set.size);
        const list = ranges.toJSON();
        for (const [index, [first, last]] of list.entries()) {
          assert.ok(first <= last);
          if (index > 0) assert.ok(first > (list[index - 1]?.[1] as number) + 1, 'neighbours are one range');
        }
        assert.deepEqual(createRanges(JSON.parse(JSON.stringify(ranges))).toJSON(), list);
      }),
    );
  });

  it('takes nothing out of what is no list of ranges', () => {
    for (const wrong of [null, 7, 'x', {}, [1, 2], [[1.5, 2]], [['a', 'b']]])
      assert.deepEqual(createRanges(wrong).toJSON(), []);
  });
});
