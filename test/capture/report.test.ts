import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { formatReport, inPlaceOf, type TargetReport } from '../../src/capture/report.ts';
import { targetStates } from '../../src/observe/outcomes.ts';

const calls = (calls: number, failed = 0, skipped = 0) => ({ calls, failed, skipped });

const reports: readonly TargetReport[] = [
  { id: 'src/orders.ts#createOrder', state: 'patched', notes: [], ...calls(3) },
  {
    id: 'src/a.ts#b',
    state: 'patched',
    notes: ['a configured target has priority over one in the code'],
    ...calls(0),
  },
  { id: 'src/late.ts#run', state: 'pending', notes: [], ...calls(0) },
  { id: 'src/x.ts#y', state: 'failed', reason: 'no such file: ./src/x.ts', notes: [], ...calls(0) },
];

describe('capture: report', () => {
  it('is a headline and one aligned line a target', () => {
    assert.equal(
      formatReport.start(reports),
      [
        'capture: 2 of 4 targets patched, 1 pending, 1 failed',
        '  patched  src/orders.ts#createOrder',
        '  patched  src/a.ts#b                 a configured target has priority over one in the code',
        '  pending  src/late.ts#run',
        // Why has been said in a warning.
        '  FAILED   src/x.ts#y',
      ].join('\n'),
    );
  });

  it('of svc check says found, as nothing runs, and why not', () => {
    assert.equal(
      formatReport.inspection([
        { id: 'src/orders.ts#createOrder', state: 'found', notes: [], ...calls(0) },
        ...reports.slice(3),
      ]),
      [
        'capture: 1 of 2 targets found, 1 failed',
        '  found   src/orders.ts#createOrder',
        '  FAILED  src/x.ts#y                 no such file: ./src/x.ts',
      ].join('\n'),
    );
  });

  it('says only what there is', () => {
    assert.equal(formatReport.start([]), 'capture: no targets');
    assert.equal(
      formatReport.start(reports.slice(0, 1)),
      'capture: 1 of 1 targets patched\n  patched  src/orders.ts#createOrder',
    );
  });

  it('has the states that docs/target-states.md explains', () => {
    const docs = readFileSync(new URL('../../docs/target-states.md', import.meta.url), 'utf8');
    const [, table = ''] = docs.split('| State | Meaning |');
    const explained = [...(table.split('\n\n')[0] ?? '').matchAll(/^\| `(\w+)` \|/gm)].map(
      ([, state]) => state,
    );
    assert.deepEqual(explained, Object.keys(targetStates));
  });

  it('names at the end what made no event', () => {
    assert.equal(
      formatReport.end(reports),
      [
        'capture: 3 of 4 targets made no event',
        '  never called  src/a.ts#b       a configured target has priority over one in the code',
        '  pending       src/late.ts#run',
        '  FAILED        src/x.ts#y',
      ].join('\n'),
    );
    assert.equal(formatReport.end(reports.slice(0, 1)), '');
    assert.equal(formatReport.end([]), '');
  });

  it('names apart what is not loaded, and what to do, source maps first', () => {
    const unloaded: readonly TargetReport[] = [
      { id: 'src/late.ts#run', state: 'unloaded', reason: 'why', notes: ['a note'], ...calls(0) },
      {
        ...{ id: 'src/orders.ts#create', state: 'unloaded', notes: [], ...calls(0) },
        reason: inPlaceOf('./dist/orders.js'),
      },
    ];
    assert.equal(
      formatReport.unloaded(unloaded, 4),
      [
        'capture: 2 of 4 targets made no event: no module of theirs was loaded',
        '  UNLOADED  src/late.ts#run       why; a note',
        '  UNLOADED  src/orders.ts#create  ./dist/orders.js is loaded in its place: write source maps in the build (tsc: "sourceMap": true; esbuild: --sourcemap), or write module: ./dist/orders.js',
      ].join('\n'),
    );
    assert.equal(formatReport.unloaded([], 4), '');
    assert.equal(formatReport.end(unloaded), '', 'told already');
  });

  it('tells calls that made no event from calls that never came', () => {
    const target = { state: 'patched', notes: [] } as const;
    assert.equal(
      formatReport.end([
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
