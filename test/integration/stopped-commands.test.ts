import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { toDlqRecord } from '../../src/publish/tiers/dlq-message.ts';
import { createKafkajsBroker } from '../adapters/kafka/kafka-clients.ts';
import { backupEvent, backupIn, freshPath } from '../adapters/local-backup/backup-folder.ts';
import { outboxFolder, outboxRow } from '../cli/outbox-folder.ts';
import { failedEvent } from '../publish/failed-event.ts';
import { startKafka, type TestKafka } from '../support/kafka.ts';
import { requiring } from '../support/requires.ts';
import { runSvc } from '../support/run-svc.ts';

const main = resolve(import.meta.dirname, '../../src/cli/main.ts');

interface Stage {
  readonly cwd: string;
  readonly args: readonly string[];
  /** Events that are to be sent. */
  readonly count: number;
  /** What the same command needs to go on, by the last line of the one that was stopped. */
  readonly goesOnWith: (last: string) => readonly string[];
  readonly says: RegExp;
  readonly end?: () => Promise<void>;
}

requiring('kafka', 'a command that Ctrl-C stops in the middle of what it sends', function () {
  this.timeout(180_000);
  let kafka: TestKafka;
  before(async () => {
    kafka = await startKafka();
  });

  const again = /^stopped on request\. Run the command again to go on from here$/;
  const recovery = { goesOnWith: () => [], says: again, cwd: '/' };
  const brokerArgs = (): string[] => ['--broker', kafka.brokers.join(',')];

  /** The first lie in files, the others in a segment. */
  async function restoring(topic: string, count: number): Promise<string[]> {
    const directory = freshPath();
    const backup = backupIn(directory, { maxFiles: 10 });
    const events = Array.from({ length: count }, (_, n) => backupEvent(String(1_000 + n), { topic }));
    for (const event of events.splice(0, 10)) await backup.store(event);
    await Promise.all(events.map((event) => backup.store(event)));
    await backup.close(5_000);
    return ['backup', 'restore', '--dir', directory, '--topic', topic, '--rate', '100', ...brokerArgs()];
  }

  /** Ends it with Ctrl-C when the first events are in their topic. Gives its exit code and what it said. */
  async function stopped(topic: string, args: readonly string[], cwd: string): Promise<[number, string]> {
    await kafka.createTopic(topic, { partitions: 1 });
    const running = spawn(process.execPath, [main, ...args], { cwd, stdio: ['ignore', 'ignore', 'pipe'] });
    let said = '';
    running.stderr.on('data', (text) => {
      said += text;
    });
    const ended = once(running, 'close');
    for (const endMs = Date.now() + 60_000; (await kafka.count(topic)) === 0; await sleep(20))
      assert.ok(Date.now() < endMs, said);
    running.kill('SIGINT');
    const [code] = await ended;
    return [code, said];
  }

  const stages: Readonly<Record<string, (topic: string) => Promise<Stage>>> = {
    async 'backup restore'(topic) {
      return { ...recovery, args: await restoring(topic, 500), count: 500 };
    },

    async 'dlq recover'(topic) {
      const dead = `${topic}-dead`;
      const count = 500;
      await kafka.createTopic(dead, { partitions: 1 });
      const broker = createKafkajsBroker({
        ...{ brokers: kafka.brokers, clientId: 'test', requestTimeoutMs: 10_000, connectionTimeoutMs: 3_000 },
      });
      const letters = Array.from({ length: count }, (_, n) =>
        toDlqRecord(failedEvent(String(1_000 + n), { topic }), 'operations', Date.now()),
      );
      assert.deepEqual(await broker.send(dead, 0, letters), { ok: true });
      await broker.close(5_000);
      const args = [
        'dlq',
        'recover',
        '--dlq-topic',
        dead,
        '--topic',
        topic,
        '--group',
        dead,
        '--rate',
        '100',
        ...brokerArgs(),
      ];
      return { ...recovery, args, count };
    },

    async 'outbox replay'(topic) {
      const count = 20_000;
      const broker = { topic, client: 'kafkajs', 'bootstrap-servers': kafka.brokers.join(',') };
      const folder = await outboxFolder({ broker });
      await folder.store.insert(
        Array.from({ length: count }, (_, n) => outboxRow({ eventId: String(1_000 + n), topic })),
      );
      return {
        ...{ cwd: folder.path, count, end: folder.remove },
        args: ['outbox', 'replay', '--since', '1h', '--limit', String(count)],
        says: /^stopped on request\. --since \S+ --after \d+ continues from here; without --after all are sent again$/,
        goesOnWith: (last) => last.match(/--since \S+ --after \d+/)?.[0].split(' ') ?? [],
      };
    },
  };

  for (const [name, prepare] of Object.entries(stages))
    it(`svc ${name} goes on from there: none is lost, none is sent twice`, async () => {
      const topic = `stopped-${name.replace(' ', '-')}-${Date.now()}`;
      const { args, cwd, count, says, goesOnWith, end } = await prepare(topic);
      const [code, said] = await stopped(topic, args, cwd);
      assert.equal(code, 1, said);
      const last = said.trimEnd().split('\n').at(-1) ?? '';
      assert.match(last, says);
      const sent = await kafka.count(topic);
      assert.ok(sent < count, 'all was sent: the test shows nothing');
      assert.match(said, new RegExp(`\\b${sent} of \\d+ events\\b`));

      const rest = await runSvc([...args, ...goesOnWith(last)], { cwd });
      assert.equal(rest.code, 0, rest.stderr);
      const records = await kafka.read(topic, { timeoutMs: 60_000 });
      assert.equal(new Set(records.map(({ headers }) => headers.eventId)).size, count);
      assert.equal(records.length, count);
      await end?.();
    });

  it('has done all of it where the last batch was under way: nothing is said to be left', async () => {
    const topic = `stopped-late-${Date.now()}`;
    // One batch, behind which the rate makes it wait.
    const [code, said] = await stopped(topic, await restoring(topic, 100), '/');
    assert.equal(code, 0, said);
    assert.match(said, /: 100 of 100 events sent to their topics\n$/);
  });
});
