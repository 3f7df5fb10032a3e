import { connect } from 'node:net';
import { startManagementServer } from '../../src/manage/server.ts';
import { consoleLogger, useLogger } from '../../src/observe/logger.ts';
import { fakeControls } from './fake-controls.ts';

// Run as a process of its own: it has a management server and an open connection to it, and must end by itself.
useLogger(consoleLogger('warn'));
const server = await startManagementServer(
  { port: 0, address: '127.0.0.1', token: undefined, exposure: ['*'], showDetails: 'always' },
  fakeControls(),
);
const socket = connect(server?.port ?? 0, '127.0.0.1');
socket.write('GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n');
socket.once('data', (data) => {
  socket.unref();
  const alive = process.getActiveResourcesInfo().filter((resource) => resource.startsWith('TCP'));
  console.log(`answered ${data.toString().slice(9, 12)}, kept alive by [${alive}]`);
});
