import assert from 'node:assert/strict';
import { deflateRawSync } from 'node:zlib';
import fc from 'fast-check';
import { doneMarks } from '../../../src/adapters/kafkajs/kafkajs-topic-reader.ts';
import { createRanges } from '../../../src/ground/bounds.ts';

function marksOf(base: number, numbers: readonly number[]): ReturnType<typeof doneMarks.read> {
  const done = createRanges();
  for (const number of numbers) done.add(number);
  return { base, done };
}

describe('done marks', () => {
  it('without gaps are the offset alone', () => {
    assert.deepEqual(doneMarks.write(marksOf(5, [5, 6, 7])), { offset: 8, metadata: '' });
    assert.deepEqual(doneMarks.write(marksOf(5, [])), { offset: 5, metadata: '' });
  });

  it('come back as they were, whatever the gaps', () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.integer({ min: 10, max: 200 })), (numbers) => {
        const { offset, metadata } = doneMarks.write(marksOf(10, numbers));
        const marks = doneMarks.read(0, offset, metadata);
        assert.ok(metadata.length <= 4_000);
        for (let number = 10; number <= 201; number++) {
          assert.equal(
            number < marks.base || marks.done.has(number),
            numbers.includes(number),
            String(number),
          );
        }
      }),
    );
  });

  it('that expand without end count for nothing', () => {
    const bomb = deflateRawSync(Buffer.alloc(400 * 1024 * 1024)).toString('base64');
    const { base, done } = doneMarks.read(3, 7, `svc1:${bomb}`);
    assert.deepEqual([base, done.toJSON()], [7, []]);
  });

  it('of a group that knows nothing begin where the topic begins', () => {
    assert.equal(doneMarks.read(7, undefined, null).base, 7);
    assert.equal(doneMarks.read(7, 3, '').base, 7, 'deleted by the broker meanwhile');
    assert.equal(doneMarks.read(7, 9, 'of somebody else').base, 9);
    assert.equal(doneMarks.read(7, 9, 'svc1:broken').base, 9);
  });

  it('that do not fit are an error, before they are lost', () => {
    const random = (count: number): number[] =>
      Array.from({ length: count }, (_, index) => index * 9 + ((index * index * 7) % 5) + 1);
    assert.doesNotThrow(() => doneMarks.write(marksOf(0, random(1_000))));
    assert.throws(
      () => {
        let seed = 1;
        const numbers: number[] = [];
        for (let at = 1; numbers.length < 10_000; ) {
          seed = (seed * 48_271) % 2_147_483_647;
          at += 2 + (seed % 30);
          numbers.push(at);
        }
        doneMarks.write(marksOf(0, numbers));
      },
      { code: 'SVC_ADAPTERS_MARKS_FULL' },
    );
  });
});
