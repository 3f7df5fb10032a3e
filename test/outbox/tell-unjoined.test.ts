import assert from 'node:assert/strict';
import { tellUnjoined } from '../../src/outbox/outbox-health.ts';
import { useLogger } from '../support/log.ts';

describe('events that are stored outside any transaction', () => {
  it('are counted, said once for each target and each type of outbox.save(), and shown in one line', () => {
    const lines: string[] = [];
    const logger = { debug() {}, info() {}, error() {}, warn: (line: string) => void lines.push(line) };
    useLogger(logger);
    const unjoined = tellUnjoined();
    assert.equal(unjoined.remark(), undefined);
    const targets = ['src/orders.ts#place', 'src/orders.ts#pay', 'src/orders.ts#place', undefined, undefined];
    for (const target of targets) unjoined.tell({ eventType: 'ORDER' }, target);
    assert.deepEqual(
      lines.map(
        (line) => /^outbox: an event of (.*) was made outside .*on-no-transaction: error/.exec(line)?.[1],
      ),
      ['src/orders.ts#place', 'src/orders.ts#pay', 'outbox.save() of ORDER'],
    );
    assert.equal(unjoined.count(), 5);
    assert.match(
      unjoined.remark() ?? '',
      /^5 events were made outside .*: src\/orders.ts#place, src\/orders.ts#pay, outbox.save\(\) of ORDER; see svc_outbox_unjoined_total/,
    );
  });
});
