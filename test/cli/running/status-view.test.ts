import assert from 'node:assert/strict';
import { ratesOf, type Sample, statusScreen } from '../../../src/cli/running.ts';

const sample = (atMs: number, published: number): Sample => ({
  ...{
    atMs,
    status: 'DOWN',
    remark: 'connect ECONNREFUSED 127.0.0.1:9092, and a long line of what else there is',
    state: 'CRITICAL',
    findings: [
      '94.1 % of the events in the last five minutes reached their topics: the log says why\u001b[2J',
    ],
  },
  events: { published, failed: null, dlq: 0, backup: 12, lost: 1_234_567_890 },
  breakers: { broker: 'HALF-OPEN', outbox: 'CLOSED' },
  relayStandsBy: true,
  backlog: { memoryEvents: 3, backupEvents: 9, backupFiles: 1, outboxPending: 5, outboxOldestSeconds: 61.25 },
});

describe('the view of svc status', () => {
  it('has no line that is longer than the terminal, and loses no number to 40 columns', () => {
    const shown = {
      ...{ url: 'http://a-host-with-a-long-name.internal.example:17820', name: 'orders', version: '1.0.0' },
      ...{ sample: sample(2_000, 30), perSecond: ratesOf(sample(0, 10), sample(2_000, 30)) },
    };
    const lines = statusScreen(shown, 40).split('\n');
    assert.deepEqual(
      lines.filter((line) => line.length > 40),
      [],
    );
    for (const expected of [
      /^health +DOWN {2}CRITICAL$/,
      /^ {2}94\.1 % of the events/,
      /the log says why\\u001b\[2J$|why\\u001b\[2J$/,
      /^published +30 +10$/,
      /^failed +- +-$/,
      /^lost +1234567890 +0$/,
      /^breaker +HALF-OPEN$/,
      /^ {2}outbox {2}CLOSED, stands by$/,
      /^outbox +5, oldest 61\.3 s$/,
    ])
      assert.ok(
        lines.some((line) => expected.test(line)),
        `${expected} in\n${lines.join('\n')}`,
      );
  });

  for (const columns of [30, 40, 80, 200])
    it(`shows the reason of DOWN to its end in ${columns} columns, long words too`, () => {
      const reason = `connect ECONNREFUSED ${'kafka-with-a-long-name.'.repeat(4)}example:9092: start the broker, or correct svc.broker.bootstrap-servers`;
      const down = { ...sample(0, 1), remark: reason, findings: [] };
      const shown = {
        url: 'http://a',
        name: 'a',
        version: '1',
        sample: down,
        perSecond: ratesOf(down, down),
      };
      const lines = statusScreen(shown, columns).split('\n');
      const from = lines.findIndex((line) => line.startsWith('health')) + 1;
      const told = lines.slice(
        from,
        lines.findIndex((line) => line.startsWith('breaker')),
      );
      assert.ok(told.every((line) => line.length <= columns));
      assert.equal(
        told
          .map((line) => line.trim())
          .join('')
          .replaceAll(' ', ''),
        reason.replaceAll(' ', ''),
      );
    });

  it('a process that was started anew has no rate yet', () => {
    assert.equal(ratesOf(sample(0, 30), sample(2_000, 10)).published, null);
    assert.equal(ratesOf(sample(0, 30), sample(0, 30)).published, null);
    assert.equal(ratesOf(sample(0, 30), sample(500, 31)).published, 2);
  });
});
