import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { bucketsFolder, type S3Server, startS3Server } from '../../scripts/services/s3.ts';
import { keepEnvironment } from '../support/environment.ts';
import { requiring } from '../support/requires.ts';
import { type StartedSvc, startSvc } from './started-svc.ts';

const nowhere = '127.0.0.1:1';

requiring('own-s3', 'svc and a store that does not let it in, while Kafka is away', function () {
  this.timeout(60_000);
  let server: S3Server;
  let svc: StartedSvc;
  const restoreEnvironment = keepEnvironment();

  before(async () => {
    server = await startS3Server();
    assert.ok(server.local);
    await mkdir(join(bucketsFolder(server.local), 'orders-backup'));
  });
  beforeEach(() => {
    process.env.AWS_ACCESS_KEY_ID = server.accessKey;
    process.env.AWS_SECRET_ACCESS_KEY = server.secretKey;
  });
  afterEach(() => svc.end());
  after(async () => {
    restoreEnvironment();
    await server?.local?.stop();
  });

  const backup = (rest: object): object => ({
    bootstrapServers: [nowhere],
    backup: { s3Enabled: true, s3Bucket: 'orders-backup', s3Endpoint: server.endpoint, ...rest },
  });

  for (const [what, settings, secret, says] of [
    ['a bucket that does not exist', { s3Bucket: 'nothing-here' }, undefined, /the bucket does not exist/],
    ['a wrong secret', {}, 'not-the-secret', /the credentials were refused/],
  ] as const) {
    it(`${what}: the event is in the local backup`, async () => {
      if (secret !== undefined) process.env.AWS_SECRET_ACCESS_KEY = secret;
      svc = startSvc(backup(settings));
      const { outcome, eventId } = await svc.service.producer.publish({ n: 1 }, { eventType: 'KEPT' });
      assert.equal(outcome, 'backup');
      assert.deepEqual(
        svc.backup().map((event) => [event.eventId, event.payload]),
        [[eventId, { n: 1 }]],
      );
      const errors = svc.lines.filter((line) => line.startsWith('error: backup '));
      assert.equal(errors.length, 1, svc.lines.join('\n'));
      assert.match(errors[0] as string, says);
      assert.doesNotMatch(svc.lines.join('\n'), /not-the-secret|lost/);
    });
  }

  for (const [what, status] of [
    ['says 200 to everything, with a page', 200],
    ['says 412 to everything', 412],
  ] as const) {
    it(`what ${what}: the event is in the local backup`, async () => {
      const web = createServer(
        (_, response) => void response.writeHead(status).end('<title>Welcome</title>'),
      );
      await once(web.listen(0, '127.0.0.1'), 'listening');
      const { port } = web.address() as AddressInfo;
      try {
        svc = startSvc(backup({ s3Endpoint: `http://127.0.0.1:${port}` }));
        const { outcome, eventId } = await svc.service.producer.publish({ n: 1 }, { eventType: 'KEPT' });
        assert.equal(outcome, 'backup');
        assert.deepEqual(
          svc.backup().map((event) => event.eventId),
          [eventId],
        );
        const errors = svc.lines.filter((line) => line.startsWith('error: backup '));
        assert.match(
          errors.join('\n'),
          new RegExp(`the server there answered ${status}, but shows no object`),
        );
      } finally {
        web.closeAllConnections();
        web.close();
      }
    });
  }

  it('the right ones: the event is in the bucket, and not in a file', async () => {
    svc = startSvc(backup({}));
    assert.equal((await svc.service.producer.publish({ n: 1 }, { eventType: 'KEPT' })).outcome, 'backup');
    assert.equal(readdirSync(svc.folder).includes('backup'), false);
  });

  it('the store lets svc in, and the folder is not one: the event is in the bucket', async () => {
    svc = startSvc({ ...backup({}), dlqBackupPath: join(import.meta.filename, 'backup') });
    assert.equal((await svc.service.producer.publish({ n: 1 }, { eventType: 'KEPT' })).outcome, 'backup');
    assert.doesNotMatch(svc.lines.join('\n'), /lost/);
  });
});
