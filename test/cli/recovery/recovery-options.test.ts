import assert from 'node:assert/strict';
import { acceptOf } from '../../../src/cli/recovery.ts';
import { WrongUse } from '../../../src/cli/terminal.ts';
import type { StoredEvent } from '../../../src/start/commands/recovery.ts';
import { recoveryOptions } from '../support/recovery-options.ts';

const stored = (storedAt: number): StoredEvent => ({
  place: '1.json',
  eventId: '1',
  eventType: 'T',
  topic: 'orders',
  key: null,
  headers: {},
  value: Buffer.alloc(0),
  storedAt,
  reason: undefined,
});

const accepts = (args: string[], storedAt: number): boolean =>
  acceptOf(recoveryOptions(args))(stored(storedAt));

describe('options of a recovery', () => {
  it('--since is from a time on, --until before it', () => {
    const at = Date.UTC(2026, 2, 4, 10);
    for (const text of ['2026-03-04T10:00:00Z', '2026-03-04T10:00:00.000Z', '2026-03-04T11:00+01:00']) {
      assert.deepEqual([accepts(['--since', text], at), accepts(['--since', text], at - 1)], [true, false]);
      assert.deepEqual([accepts(['--until', text], at), accepts(['--until', text], at - 1)], [false, true]);
    }
    assert.equal(accepts(['--since', '2026-03-04'], Date.UTC(2026, 2, 4)), true);
    assert.equal(accepts(['--since', '2026-03-04'], Date.UTC(2026, 2, 4) - 1), false);
    assert.equal(accepts(['--since', '2024-02-29'], Date.UTC(2024, 1, 29)), true);
  });

  it('how long ago is counted from now', () => {
    assert.equal(accepts(['--since', '90m'], Date.now() - 89 * 60_000), true);
    assert.equal(accepts(['--since', '90m'], Date.now() - 91 * 60_000), false);
  });

  for (const text of [
    '90',
    '2',
    'soon',
    '',
    '2026',
    'March 4, 2026',
    '2026-03-04T10:00',
    '2026-13-01',
    '2026-02-29',
    '2026-02-31T10:00:00Z',
    '-5m',
  ])
    it(`"${text}" is no time`, () => {
      assert.throws(() => recoveryOptions([`--since=${text}`]), WrongUse);
    });

  it('a time that ends before it begins is said, not answered with nothing', () => {
    assert.throws(() => acceptOf(recoveryOptions(['--since', '1h', '--until', '2h'])), /not before --until/);
    acceptOf(recoveryOptions(['--since', '2h', '--until', '1h']));
  });

  for (const rate of ['0', '-1', '1.5', 'fast', 'Infinity', 'NaN', ''])
    it(`--rate ${rate} is refused`, () => {
      assert.throws(() => recoveryOptions([`--rate=${rate}`]), /--rate takes events a second/);
    });

  it('--rate takes 1 and more', () => {
    assert.equal(recoveryOptions(['--rate', '1']).rate, 1);
    assert.equal(recoveryOptions([]).rate, undefined);
  });
});
