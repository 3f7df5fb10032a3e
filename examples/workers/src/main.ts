import cluster from 'node:cluster';
import { openReadings } from './readings.ts';

// Two processes share the port; each has a thread that does the sums.
if (cluster.isPrimary) {
  openReadings().close(); // two processes that make one database at once can find it locked
  for (let each = 0; each < 2; each++) cluster.fork();
  process.once('SIGTERM', () => {
    for (const worker of Object.values(cluster.workers ?? {})) worker?.kill('SIGTERM');
  });
} else {
  await import('./server.ts');
}
