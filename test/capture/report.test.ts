import assert from 'node:assert/strict';
import {
  formatEndReport,
  formatNeverLoaded,
  formatReport,
  type TargetReport,
} from '../../src/capture/report.ts';

const calls = (calls: number, failed = 0, skipped = 0) => ({ calls, failed, skipped });

const reports: readonly TargetReport[] = [
  { id: 'src/orders.ts#createOrder', state: 'patched', notes: [], ...calls(3) },
  {
    id: 'src/a.ts#b',
    state: 'patched',
    notes: ['a configured target wins over one in the code'],
    ...calls(0),
  },
  { id: 'src/late.ts#run', state: 'pending', notes: [], ...calls(0) },
  { id: 'src/x.ts#y', state: 'failed', reason: 'no such file: ./src/x.ts', notes: [], ...calls(0) },
];

describe('capture: report', () => {
  it('is a headline and one aligned line a target', () => {
    assert.equal(
      formatReport(reports),
      [
        'capture: 2 of 4 targets patched, 1 not yet loaded, 1 failed',
        '  patched         src/orders.ts#createOrder',
        '  patched         src/a.ts#b                 a configured target wins over one in the code',
        '  not yet loaded  src/late.ts#run',
        '  FAILED          src/x.ts#y                 no such file: ./src/x.ts',
      ].join('\n'),
    );
  });

  it('says only what there is', () => {
    assert.equal(formatReport([]), 'capture: no targets');
    assert.equal(
      formatReport(reports.slice(0, 1)),
      'capture: 1 of 1 targets patched\n  patched  src/orders.ts#createOrder',
    );
  });

  it('names at the end what made no event', () => {
    assert.equal(
      formatEndReport(reports),
      [
        'capture: 2 of 4 targets made no event',
        '  never called  src/a.ts#b  a configured target wins over one in the code',
        '  FAILED        src/x.ts#y  no such file: ./src/x.ts',
      ].join('\n'),
    );
    assert.equal(formatEndReport(reports.slice(0, 1)), '');
    assert.equal(formatEndReport([]), '');
  });

  it('names apart what was never loaded, and what to write in its place', () => {
    assert.equal(
      formatNeverLoaded(
        [
          { id: 'src/late.ts#run', instead: undefined, notes: ['a note'] },
          { id: 'src/orders.ts#create', instead: './dist/orders.js', notes: [] },
        ],
        4,
      ),
      [
        'capture: 2 of 4 targets made no event: no module of theirs was loaded',
        '  never loaded  src/late.ts#run       a note',
        '  never loaded  src/orders.ts#create  ./dist/orders.js is loaded in its place: write module: ./dist/orders.js',
      ].join('\n'),
    );
    assert.equal(formatNeverLoaded([], 4), '');
  });

  it('tells calls that made no event from calls that never came', () => {
    const target = { state: 'patched', notes: [] } as const;
    assert.equal(
      formatEndReport([
        { ...target, id: 'a', ...calls(3, 3) },
        { ...target, id: 'b', ...calls(2, 0, 2) },
        { ...target, id: 'c', ...calls(5, 3, 2) },
        { ...target, id: 'd', ...calls(6, 3, 2) },
        { ...target, id: 'e', ...calls(0) },
      ]),
      [
        'capture: 4 of 5 targets made no event',
        '  all 3 calls failed         a',
        '  all 2 calls skipped        b',
        '  3 calls failed, 2 skipped  c',
        '  never called               e',
      ].join('\n'),
    );
  });
});
