import { startManagementServer } from '../../src/manage/server.ts';
import { consoleLogger, useLogger } from '../../src/observe/logger.ts';
import { renderMetrics } from '../../src/observe/prometheus.ts';
import { fakeControls } from '../manage/fake-controls.ts';
import { filledSources } from '../observe/metric-sources.ts';
import { registryLike } from './prom-registry.ts';

// A process of the bench `management`: with a management server over a ledger of so many event types, over a registry of prom-client
// with the same series, or without any. Tells what CPU it has used when it is asked.
const [what, types] = process.argv.slice(2);
const sources = filledSources();
for (let type = 0; type < Number(types) - 2; type++)
  for (let event = 0; event < 20; event++) {
    sources.ledger.open(`ORDER_TYPE_${type}`).close('published');
    sources.durations.record(`ORDER_TYPE_${type}`, 0.001 * event * type);
  }
const text = () => renderMetrics(sources, { name: 'orders', version: '1.0.0' });
const registry = what === 'prom-client' ? await registryLike(await text()) : undefined;
useLogger(consoleLogger('warn'));
const server =
  what === 'nothing'
    ? undefined
    : await startManagementServer(
        { port: 0, address: '127.0.0.1', token: undefined, exposure: ['*'], showDetails: 'always' },
        fakeControls({ metricsText: registry === undefined ? text : () => registry.metrics() }),
      );
process.on('message', () => {
  const { user, system } = process.cpuUsage();
  process.send?.(user + system);
});
process.send?.(server?.port ?? 0);
