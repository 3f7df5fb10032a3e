import cluster from 'node:cluster';

// Two processes share the port; each has a thread that does the sums.
if (cluster.isPrimary) {
  for (let each = 0; each < 2; each++) cluster.fork();
  process.once('SIGTERM', () => {
    for (const worker of Object.values(cluster.workers ?? {})) worker?.kill('SIGTERM');
  });
} else {
  await import('./server.ts');
}
