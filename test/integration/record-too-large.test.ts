import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { startKafka, type TestKafka } from '../support/kafka.ts';
import { requiring } from '../support/requires.ts';
import { runSvc } from '../support/run-svc.ts';
import { type StartedSvc, startSvc } from './started-svc.ts';

requiring('kafka', 'svc and a topic with a limit', function () {
  this.timeout(60_000);
  const topic = 'limited-records';
  let kafka: TestKafka;
  let svc: StartedSvc;

  before(async () => {
    kafka = await startKafka();
    await kafka.createTopic(topic, { config: { 'max.message.bytes': '20000' } });
    svc = startSvc({ bootstrapServers: kafka.brokers, topic });
  });
  after(() => svc?.end());

  it('a record over it goes to the backup, those before and behind it to the topic', async () => {
    const published = await Promise.all(
      [10, 30_000, 20].map((size) =>
        svc.service.producer.publish({ text: 'x'.repeat(size) }, { eventType: 'SIZED', key: 'one' }),
      ),
    );
    assert.deepEqual(
      published.map(({ outcome }) => outcome),
      ['published', 'backup', 'published'],
    );
    const values = (await kafka.read(topic, { count: 2 })).map(({ value }) => JSON.parse(value as string));
    assert.deepEqual(
      values.map(({ payload }) => payload.text.length),
      [10, 20],
    );
    const kept = svc.lines.filter((line) => line.startsWith('warn: event kept in the backup: '));
    assert.equal(kept.length, 1, svc.lines.join('\n'));
    assert.match(kept[0] as string, /larger than topic "limited-records" allows: raise max\.message\.bytes/);
    assert.doesNotMatch(svc.lines.join('\n'), /xxx|error|lost/);
  });

  it('the drain tries it once, sets it aside as it is, and says where', async () => {
    const aside = join(svc.folder, 'backup', 'too-large');
    for (let tries = 0; tries < 300 && !(existsSync(aside) && svc.backup().length === 0); tries++)
      await sleep(100);
    const names = readdirSync(aside).filter((name) => name.endsWith('.json'));
    assert.equal(names.length, 1);
    const event = JSON.parse(readFileSync(join(aside, names[0] as string), 'utf8'));
    assert.deepEqual(event.payload, { text: 'x'.repeat(30_000) });
    const said = svc.lines.filter((line) => line.includes('set aside in '));
    assert.equal(said.length, 1, svc.lines.length.toString());
    assert.match(said[0] as string, /too-large \(\d+ bytes\): .*raise max\.message\.bytes/);
    assert.doesNotMatch(svc.lines.join('\n'), /xxx|lost/);
  });

  it('a list, a metric and the details of health show it, and nothing sends it by itself', async () => {
    const port = svc.info.join('\n').match(/management on http:\/\/127\.0\.0\.1:(\d+)/)?.[1];
    const get = async (path: string) => (await fetch(`http://127.0.0.1:${port}${path}`)).text();
    assert.match(await get('/metrics'), /^svc_backup_too_large_events 1$/m);
    const { status, details } = JSON.parse(await get('/actuator/health/svc'));
    assert.deepEqual([status, details.tooLargeEvents], ['UP', 1]);

    const args = ['--dir', join(svc.folder, 'backup'), '--broker', kafka.brokers.join(','), '--json'];
    const backup = async (...command: string[]) =>
      JSON.parse((await runSvc(['backup', ...command, ...args], { cwd: '/' })).stdout);
    const [listed, ...more] = (await backup('list')).events;
    assert.deepEqual([listed.eventType, listed.reason, more], ['SIZED', 'MESSAGE_TOO_LARGE', []]);
    assert.match(listed.place, /^too-large\//);
    for (const command of [['restore', '--dry-run'], ['restore']])
      assert.equal((await backup(...command)).matched, 0);
  });
});
