import assert from 'node:assert/strict';
import { tellUnjoined } from '../../../src/start/outbox/tell-unjoined.ts';

describe('events that are stored outside any transaction', () => {
  it('are counted, said once for each type, and shown in one line', () => {
    const lines: string[] = [];
    const logger = { debug() {}, info() {}, error() {}, warn: (line: string) => void lines.push(line) };
    const unjoined = tellUnjoined(logger);
    assert.equal(unjoined.remark(), undefined);
    for (const eventType of ['A', 'B', 'A']) unjoined.tell({ eventType });
    assert.equal(lines.length, 2);
    assert.match(lines[0] ?? '', /type A .*on-no-transaction: error/);
    assert.equal(unjoined.count(), 3);
    assert.match(
      unjoined.remark() ?? '',
      /^3 events were made outside .*: A, B; see svc_outbox_unjoined_total/,
    );
  });
});
