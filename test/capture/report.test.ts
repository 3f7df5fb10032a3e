import assert from 'node:assert/strict';
import { formatEndReport, formatReport, type TargetReport } from '../../src/capture/report.ts';

const reports: readonly TargetReport[] = [
  { id: 'src/orders.ts#createOrder', state: 'patched', notes: [], calls: 3 },
  { id: 'src/a.ts#b', state: 'patched', notes: ['a configured rule wins over one in the code'], calls: 0 },
  { id: 'src/late.ts#run', state: 'pending', notes: [], calls: 0 },
  { id: 'src/x.ts#y', state: 'failed', reason: 'no such file: ./src/x.ts', notes: [], calls: 0 },
];

describe('capture: report', () => {
  it('is a headline and one aligned line a target', () => {
    assert.equal(
      formatReport(reports),
      [
        'capture: 2 of 4 targets patched, 1 not yet loaded, 1 failed',
        '  patched         src/orders.ts#createOrder',
        '  patched         src/a.ts#b                 a configured rule wins over one in the code',
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
        'capture: 3 of 4 targets made no event',
        '  never called  src/a.ts#b       a configured rule wins over one in the code',
        '  never loaded  src/late.ts#run',
        '  FAILED        src/x.ts#y       no such file: ./src/x.ts',
      ].join('\n'),
    );
    assert.equal(formatEndReport(reports.slice(0, 1)), '');
    assert.equal(formatEndReport([]), '');
  });
});
