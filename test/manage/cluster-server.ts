import cluster from 'node:cluster';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { startManagementServer } from '../../src/manage/server.ts';
import { fakeControls } from './fake-controls.ts';

// Run as a process of its own: two workers of a cluster want the same port. Prints who got it.
const start = (port: number) =>
  startManagementServer(
    { port, address: '127.0.0.1', token: undefined, exposure: ['*'], showDetails: 'always' },
    fakeControls(),
  );

if (cluster.isPrimary) {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  probe.close();
  const results: boolean[] = [];
  for (let index = 0; index < 2; index++) {
    const [listens] = await once(cluster.fork({ TEST_PORT: String(port) }), 'message');
    results.push(listens);
  }
  console.log(`listening: ${results}`);
  for (const worker of Object.values(cluster.workers ?? {})) worker?.kill();
} else {
  const server = await start(Number(process.env.TEST_PORT));
  process.send?.(server !== undefined);
}
