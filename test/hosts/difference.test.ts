import assert from 'node:assert/strict';
import { describe, it } from 'mocha';
import { difference } from './difference.ts';
import type { Trace } from './run-programs.ts';

const trace: Trace = {
  said: {
    main: ['a', 'b'],
    'f0(1)': ['x', 'y'],
    process: ['unhandledRejection threw Error f0 1 failed (own)'],
  },
  expected: ['f0 1'],
  published: [],
};
const under: Trace = { ...trace, published: ['f0 1'] };

describe('the difference between a program without svc and with it', () => {
  const rows: [string, Trace | undefined, RegExp | null][] = [
    ['none', under, null],
    ['no run', undefined, /not run/],
    ['another line', { ...under, said: { ...trace.said, main: ['a', 'c'] } }, /main:.*b\n.*c$/s],
    ['another order', { ...under, said: { ...trace.said, main: ['b', 'a'] } }, /main/],
    [
      'another order within calls side by side',
      { ...under, said: { ...trace.said, 'f0(1)': ['y', 'x'] } },
      null,
    ],
    ['a line more', { ...under, said: { ...trace.said, spans: ['s'] } }, /spans/],
    ['a rejection not told of', { ...under, said: { ...trace.said, process: [] } }, /process/],
    ['its process ended', { ...under, end: '1\n' }, /went on.*with svc: 1/s],
    ['an event too few', { ...under, published: [] }, /events/],
    ['an event too many', { ...under, published: ['f0 1', 'f0 1'] }, /events/],
    ['another event', { ...under, published: ['f0 2'] }, /events/],
    ['another expectation', { ...under, expected: [], published: [] }, /expects/],
  ];
  for (const [title, other, told] of rows) {
    it(title, () => {
      const found = difference(trace, other);
      if (told === null) assert.equal(found, null);
      else assert.match(found ?? 'nothing', told);
    });
  }

  it('is none where a function that is not async keeps its rejection to itself, and one where it tells of another', () => {
    const silent = ['f0'];
    assert.equal(difference(trace, { ...under, said: { ...under.said, process: [] } }, silent), null);
    const more = [...(trace.said.process ?? []), 'unhandledRejection threw Error f0 2 failed (own)'];
    assert.match(
      difference(trace, { ...under, said: { ...under.said, process: more } }, silent) ?? '',
      /process/,
    );
  });

  it('leaves out events of what ran when its process was ended', () => {
    const ended = { ...trace, end: '4\n' };
    assert.equal(difference(ended, ended), null);
    assert.match(difference(ended, { ...ended, published: ['f0 2'] }) ?? '', /events/);
  });
});
