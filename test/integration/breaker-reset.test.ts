import assert from 'node:assert/strict';
import { join } from 'node:path';
import type { MetricsReport } from '../../src/manage/controls.ts';
import { openOutboxStore } from '../../src/start/adapters.ts';
import { outboxRow } from '../cli/outbox-folder.ts';
import { temporaryFolder } from '../support/folders.ts';
import { until as untilSo } from '../support/until.ts';
import { startSvc } from './started-svc.ts';

const token = 'a-token-of-some-length';
const table = 'svc_outbox_events';

describe('a reset of the circuit breakers while the broker is away', function () {
  this.timeout(30_000);

  it('closes both, says so, and sends are tried again at once', async () => {
    const folder = temporaryFolder('reset');
    const url = `sqlite:${join(folder, 'shop.db')}`;
    const lines: string[] = [];
    const say = (line: string): void => void lines.push(line);
    // Rows of five topics: five failures of the cluster at once.
    const store = openOutboxStore({ url, table, initializeSchema: 'always' });
    await store.prepare();
    await store.insert(
      [1, 2, 3, 4, 5].map((at) =>
        outboxRow({ eventId: String(at), aggregateId: `a${at}`, topic: `topic${at}` }),
      ),
    );
    await store.close(1_000);
    const { service, end } = startSvc(
      { client: 'kafkajs', bootstrapServers: ['127.0.0.1:1'] },
      { outbox: { datasource: { url } }, token, logger: { debug() {}, info: say, warn: say, error: say } },
    );
    const until = (isSo: () => Promise<boolean> | boolean): Promise<void> =>
      untilSo(isSo, { limitMs: 15_000, say: () => lines.join('\n') });
    try {
      const address = (): string | undefined =>
        /management on (http:\S+)\/metrics/.exec(lines.join('\n'))?.[1];
      await until(() => address() !== undefined);
      const report = async (): Promise<MetricsReport> =>
        (await (await fetch(`${address()}/actuator/svc-metrics`)).json()) as MetricsReport;
      const isOpen = (line: string): boolean => line.includes('Circuit breaker is OPEN');
      await until(() => lines.filter(isOpen).length === 2);
      const { summary, broker } = await report();
      assert.deepEqual([summary.circuitBreakerState, summary.consecutiveFailures], ['OPEN', 5]);
      assert.deepEqual(broker, { connectionCount: 0, inFlightRequests: 0, requestLatencyAvg: null });

      const answer = await fetch(`${address()}/actuator/svc/circuit-breaker/reset`, {
        ...{ method: 'POST', headers: { authorization: `Bearer ${token}` } },
      });
      assert.equal(answer.status, 200);
      assert.deepEqual(await answer.json(), {
        broker: { before: 'OPEN', after: 'CLOSED' },
        outbox: { before: 'OPEN', after: 'CLOSED' },
      });
      assert.deepEqual(
        lines.filter((line) => line.includes('is CLOSED')),
        [
          'Circuit breaker is CLOSED by a reset: events are sent to the cluster again',
          'outbox: Circuit breaker is CLOSED by a reset: rows are sent again',
        ],
      );

      const { outcome } = await service.producer.publish({ id: 1 }, { eventType: 'ORDER_CREATED' });
      assert.equal(outcome, 'backup');
      const after = await report();
      // It was tried: an open breaker would have said so.
      assert.ok(
        lines.some((line) => /^event kept in the backup: .*ECONNREFUSED/.test(line)),
        lines.join('\n'),
      );
      assert.ok(after.summary.totalBrokerErrors > 5, 'those of the relay count as well');
      assert.deepEqual(
        [after.summary.failedEvents, after.summary.successRate, after.dlq.totalBackupFiles],
        [1, '0.00%', 1],
      );
      await until(() => lines.filter((line) => isOpen(line) && line.startsWith('outbox')).length === 2);
    } finally {
      await end();
    }
  });
});
